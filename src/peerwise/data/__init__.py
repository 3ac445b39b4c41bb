"""Rows, data sets, partitions and sites."""

from peerwise.data.dataset import Dataset
from peerwise.data.loaders import DATASETS, load, load_folder, load_split_file, load_table, made_dataset
from peerwise.data.partitions import (
    PARTITIONS,
    Partition,
    Share,
    partition_function,
    partition_parameters,
    partition_rows,
)
from peerwise.data.public import PublicSet
from peerwise.data.rows import Feature, Indices, Inputs, Kind, Rows, Sequences, concatenate, digest
from peerwise.data.site import (
    Site,
    SiteContext,
    SiteData,
    default_partition,
    derived_seed,
    make_sites,
    site_of,
    work_anew,
)
from peerwise.data.split import split_rows

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "Dataset",
    "Feature",
    "Indices",
    "Inputs",
    "Kind",
    "Partition",
    "PublicSet",
    "Rows",
    "Sequences",
    "Share",
    "Site",
    "SiteContext",
    "SiteData",
    "concatenate",
    "default_partition",
    "derived_seed",
    "digest",
    "load",
    "load_folder",
    "load_split_file",
    "load_table",
    "made_dataset",
    "make_sites",
    "partition_function",
    "partition_parameters",
    "partition_rows",
    "site_of",
    "split_rows",
    "work_anew",
]
