"""What makes sites of a federation trust each other's parcels: keys, roster, manifests, versions seen, a ledger."""

from peerwise.parcels.signed.envelope import fingerprint, key_id, opened, opened_by_itself
from peerwise.parcels.signed.fields import SKEW, peer_name
from peerwise.parcels.signed.identity import Identity
from peerwise.parcels.signed.ledger import Ledger
from peerwise.parcels.signed.manifest import Manifest, ManifestLimits
from peerwise.parcels.signed.roster import Member, Roster
from peerwise.parcels.signed.rotation import Rotation, rotation
from peerwise.parcels.signed.seal import seal, unseal, withdrawal
from peerwise.parcels.signed.seen import Seen
from peerwise.parcels.strict import canonical, strict_json

__all__ = [
    "SKEW",
    "Identity",
    "Ledger",
    "Manifest",
    "ManifestLimits",
    "Member",
    "Roster",
    "Rotation",
    "Seen",
    "canonical",
    "fingerprint",
    "key_id",
    "opened",
    "opened_by_itself",
    "peer_name",
    "rotation",
    "seal",
    "strict_json",
    "unseal",
    "withdrawal",
]
