"""What a site does in a federation, one file a method."""

from peerwise.federation.method import Inbox, Memory, Method
from peerwise.methods.centralised import Centralised
from peerwise.methods.global_ensemble import GlobalEnsemble
from peerwise.methods.local import Local
from peerwise.methods.one_shot import OneShot
from peerwise.methods.registry import (
    describe,
    first_sentence,
    make_method,
    method_class,
    method_names,
    method_parameters,
)
from peerwise.methods.settings import check_settings, check_value, hints_of

__all__ = [
    "METHODS",
    "Centralised",
    "GlobalEnsemble",
    "Inbox",
    "Local",
    "Memory",
    "Method",
    "OneShot",
    "check_settings",
    "check_value",
    "describe",
    "first_sentence",
    "hints_of",
    "make_method",
    "method_class",
    "method_names",
    "method_parameters",
]

METHODS = {  # where each is, imported when it is first asked for
    "local": "peerwise.methods.local:Local",
    "local_rounds": "peerwise.methods.local_rounds:LocalRounds",
    "global_ensemble": "peerwise.methods.global_ensemble:GlobalEnsemble",
    "centralised": "peerwise.methods.centralised:Centralised",
    "centralised_rounds": "peerwise.methods.centralised_rounds:CentralisedRounds",
    "fedavg": "peerwise.methods.fedavg:FedAvg",
    "fedprox": "peerwise.methods.fedprox:FedProx",
    "fedbn": "peerwise.methods.fedbn:FedBN",
    "scaffold": "peerwise.methods.scaffold:Scaffold",
    "moon": "peerwise.methods.moon:Moon",
    "feddyn": "peerwise.methods.feddyn:FedDyn",
    "fedsam": "peerwise.methods.fedsam:FedSAM",
    "mofedsam": "peerwise.methods.mofedsam:MoFedSAM",
    "fedgf": "peerwise.methods.fedgf:FedGF",
    "ditto": "peerwise.methods.ditto:Ditto",
    "apfl": "peerwise.methods.apfl:APFL",
    "perfedavg": "peerwise.methods.perfedavg:PerFedAvg",
    "pfedme": "peerwise.methods.pfedme:PFedMe",
    "fedphp": "peerwise.methods.fedphp:FedPHP",
    "fml": "peerwise.methods.fml:FML",
    "fedkd": "peerwise.methods.fedkd:FedKD",
    "lgfedavg": "peerwise.methods.lgfedavg:LGFedAvg",
    "fedgh": "peerwise.methods.fedgh:FedGH",
    "fedproto": "peerwise.methods.fedproto:FedProto",
    "fedtgp": "peerwise.methods.fedtgp:FedTGP",
    "fedmosaic": "peerwise.methods.fedmosaic:FedMosaic",
    "fedct": "peerwise.methods.fedct:FedCT",
    "perfedckt": "peerwise.methods.perfedckt:PerFedCKT",
    "stacking": "peerwise.methods.stacking:Stacking",
    "fedov": "peerwise.methods.fedov:FedOV",
    "fedsov": "peerwise.methods.fedsov:FedSOV",
    "distilled_vote": "peerwise.methods.distilled_vote:DistilledVote",
    "peerwise_open": "peerwise.methods.peerwise_open:PeerwiseOpen",
}
