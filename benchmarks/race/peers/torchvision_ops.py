"""Lets torchvision be imported beside a torch without CUDA: its compiled part does not load there, and its Python part
describes functions that only the compiled part declares. Nothing here calls them."""

import torch

library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
