"""The figures of the FedSOV paper: accuracy in percent on the whole data sets, AUROC in percent."""

from __future__ import annotations

Figures = dict[int, float]

# Tables 2, 4, 5, 7, 8 and 9: (data, split, method) -> sites -> figure.
ACCURACY: dict[tuple[str, str, str], Figures] = {
    ("fashion_mnist", "disjoint", "fedavg"): {5: 59.9, 10: 37.3, 20: 37.4},
    ("fashion_mnist", "disjoint", "fedgf"): {5: 68.7, 10: 44.8, 20: 42.7},
    ("fashion_mnist", "disjoint", "fedov"): {5: 67.2, 10: 60.1, 20: 70.7},
    ("fashion_mnist", "disjoint", "fedsov"): {5: 73.6, 10: 74.3, 20: 78.6},
    ("fashion_mnist", "dirichlet 0.01", "fedavg"): {5: 54.0, 10: 39.9, 20: 36.0},
    ("fashion_mnist", "dirichlet 0.01", "fedgf"): {5: 60.2, 10: 45.1, 20: 42.1},
    ("fashion_mnist", "dirichlet 0.01", "fedov"): {5: 66.7, 10: 59.7, 20: 59.5},
    ("fashion_mnist", "dirichlet 0.01", "fedsov"): {5: 66.8, 10: 59.0, 20: 62.8},
    ("fashion_mnist", "dirichlet 0.1", "fedavg"): {5: 61.9, 10: 62.7, 20: 64.8},
    ("fashion_mnist", "dirichlet 0.1", "fedgf"): {5: 67.4, 10: 67.1, 20: 63.0},
    ("fashion_mnist", "dirichlet 0.1", "fedov"): {5: 69.4, 10: 76.6, 20: 79.8},
    ("fashion_mnist", "dirichlet 0.1", "fedsov"): {5: 69.7, 10: 75.9, 20: 78.4},
    ("cifar10", "disjoint", "fedavg"): {5: 48.3, 10: 22.2, 20: 23.0},
    ("cifar10", "disjoint", "fedgf"): {5: 48.6, 10: 25.2, 20: 25.3, 50: 25.1, 100: 25.0},
    ("cifar10", "disjoint", "fedov"): {5: 44.9, 10: 29.9, 20: 39.4, 50: 42.3, 100: 42.9},
    ("cifar10", "disjoint", "fedsov"): {5: 51.3, 10: 39.4, 20: 47.8, 50: 50.5, 100: 48.3},
    ("cifar10", "disjoint", "fedsov:full"): {5: 52.2, 10: 37.9, 20: 47.2, 50: 51.7, 100: 52.1},
    ("cifar10", "disjoint", "distilled_vote"): {5: 46.3, 10: 28.7, 20: 43.8, 50: 49.9, 100: 49.5},
    ("cifar10", "dirichlet 0.1", "fedavg"): {5: 49.9, 10: 44.1, 20: 37.7},
    ("cifar10", "dirichlet 0.1", "fedgf"): {5: 52.6, 10: 43.6, 20: 42.4, 50: 38.3, 100: 31.9},
    ("cifar10", "dirichlet 0.1", "fedov"): {5: 52.2, 10: 49.4, 20: 51.3, 50: 49.2, 100: 45.6},
    ("cifar10", "dirichlet 0.1", "fedsov"): {5: 52.8, 10: 50.7, 20: 54.8, 50: 53.0, 100: 51.2},
    ("cifar10", "dirichlet 0.1", "fedsov:full"): {5: 55.7, 10: 49.5, 20: 55.5, 50: 49.4, 100: 50.0},
    ("cifar10", "dirichlet 0.1", "distilled_vote"): {5: 52.4, 10: 46.7, 20: 53.6, 50: 49.4, 100: 47.5},
    ("coloured_digits", "by colour", "fedavg"): {5: 95.9, 10: 95.1, 20: 75.4},
    ("coloured_digits", "by colour", "fedgf"): {5: 96.8, 10: 94.4, 20: 44.2},
    ("coloured_digits", "by colour", "fedov"): {5: 98.4, 10: 97.8, 20: 97.3},
    ("coloured_digits", "by colour", "fedsov"): {5: 98.4, 10: 97.6, 20: 96.5},
}
# Table 10, CIFAR-10, disjoint, 10 sites: net -> method -> figure.
NETS = {
    "lenet": {"fedov": 26.3, "fedsov:full": 30.5, "distilled_vote": 23.6, "fedsov": 30.9},
    "alexnet": {"fedov": 25.0, "fedsov:full": 31.9, "distilled_vote": 27.4, "fedsov": 33.6},
    "large_cnn": {"fedov": 21.8, "fedsov:full": 28.1, "distilled_vote": 25.9, "fedsov": 31.7},
    "simple_cnn": {"fedov": 29.9, "fedsov:full": 37.9, "distilled_vote": 28.4, "fedsov": 39.4},
}
# Table 12, CIFAR-10, FedSOV, 10 sites: alpha -> figure.
ALPHA = {0.01: 41.6, 0.05: 50.9, 0.1: 52.1, 0.5: 64.2, 0.7: 64.9, 0.8: 64.6, 0.9: 64.2}
# Table 13, CIFAR-10, disjoint.
PLACEHOLDERS = {"fedsov:full": 37.9, "fedsov:proser": 36.0}
# Table 14, CIFAR-10, disjoint: method -> sites -> AUROC.
AUROC = {
    "fedov": {5: 69.8, 10: 69.9, 20: 72.1, 50: 72.5, 100: 72.0},
    "fedsov:full": {5: 74.3, 10: 73.7, 20: 76.5, 50: 76.4, 100: 75.5},
    "fedsov": {5: 73.6, 10: 75.5, 20: 75.9, 50: 76.6, 100: 75.8},
}
# Tables 15 to 18, CIFAR-10, 10 sites: (split, source) -> sites whose data the student has -> figure; share -> figure.
BY_SITES = {
    ("disjoint", "train"): {10: 31.6, 9: 31.2, 8: 27.8, 7: 27.1, 6: 25.9, 5: 25.6, 4: 23.3, 3: 21.3, 2: 20.9, 1: 12.7},
    ("disjoint", "test"): {10: 29.0, 9: 29.1, 8: 25.1, 7: 23.9, 6: 23.0, 5: 20.5, 4: 21.9, 3: 20.0, 2: 16.6, 1: 11.4},
    ("dirichlet 0.1", "train"): {
        10: 48.1, 9: 46.7, 8: 45.0, 7: 44.3, 6: 43.1, 5: 42.2, 4: 39.7, 3: 39.2, 2: 33.2, 1: 23.8,
    },
    ("dirichlet 0.1", "test"): {
        10: 46.6, 9: 45.4, 8: 43.5, 7: 42.9, 6: 41.1, 5: 39.7, 4: 38.3, 3: 36.6, 2: 28.7, 1: 17.4,
    },
}  # fmt: skip
BY_SHARE = {
    ("disjoint", "train"): {1.0: 31.6, 0.75: 31.6, 0.5: 28.3, 0.25: 29.0, 0.1: 27.7},
    ("disjoint", "test"): {1.0: 29.0, 0.75: 29.7, 0.5: 27.6, 0.25: 23.8, 0.1: 22.0},
    ("dirichlet 0.1", "train"): {1.0: 48.1, 0.75: 45.9, 0.5: 45.3, 0.25: 43.0, 0.1: 41.0},
    ("dirichlet 0.1", "test"): {1.0: 46.6, 0.75: 45.2, 0.5: 42.7, 0.25: 37.3, 0.1: 31.6},
}
# Table 6: parameters of all nets together, of a net of 150 k.
PARAMETERS = {
    "fedavg": {5: 150, 10: 150, 20: 150},
    "fedov": {5: 750, 10: 1500, 20: 3000},
    "fedsov": {5: 150, 10: 150, 20: 150},
}
