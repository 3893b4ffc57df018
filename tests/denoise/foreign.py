# SPDX-License-Identifier: BSD-3-Clause
"""Denoisers in the ways that others write and name them, small and with random weights."""
import torch
from torch import nn
from torch.nn import functional as f


def level_map(x, sigma):
    return torch.full_like(x[:, :1], sigma)


def joined(x, y, residual):
    return {"none": y, "add": x + y, "subtract": x - y}[residual]


def stirred(module):
    """Statistics and affine parts of norms that are not the neutral ones; small last layers keep images finite."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            for values in (part.weight.data, part.running_var):
                values.uniform_(0.3, 1.5)
            for values in (part.bias.data, part.running_mean):
                values.normal_(0, 0.2)
    return module.eval()


class Chain(nn.Module):
    """Convolutions in a row, model.N: DnCNN, IRCNN, FDnCNN, and FFDNet with one channel of the level beside moved pixels."""

    def __init__(self, dilations=(1,) * 5, channels=1, width=8, residual="subtract", activation=nn.ReLU, padding="zeros", eps=None, level=False, moved=False):
        super().__init__()
        self.residual, self.level, self.moved = residual, level, moved
        inside = 4 * channels if moved else channels
        layers = []
        for i, d in enumerate(dilations):
            first, last = i == 0, i == len(dilations) - 1
            layers.append(nn.Conv2d(inside + level if first else width, inside if last else width, 3, padding=d, dilation=d, padding_mode=padding))
            if not last:
                layers += [nn.BatchNorm2d(width, eps=eps)] if eps and not first else []
                layers.append(activation())
        self.model = nn.Sequential(*layers)

    def forward(self, x, sigma):
        y = f.pixel_unshuffle(x, 2) if self.moved else x
        y = self.model(torch.cat([y, level_map(y, sigma)], 1) if self.level else y)
        return joined(x, f.pixel_shuffle(y, 2) if self.moved else y, self.residual)


class Ffdnet(nn.Module):
    """blocks.N with the map of the level moved like pixels."""

    def __init__(self, residual="none", norm=None, depth=4, width=8, bias=True):
        super().__init__()
        self.residual = residual
        norm = norm or (lambda _: nn.Identity())
        inner = [nn.Sequential(nn.Conv2d(width, width, 3, padding=1), norm(width), nn.ReLU()) for _ in range(depth - 2)]
        self.blocks = nn.Sequential(nn.Sequential(nn.Conv2d(8, width, 3, padding=1), nn.ReLU()), *inner, nn.Conv2d(width, 4, 3, padding=1, bias=bias))

    def forward(self, x, sigma):
        y = f.pixel_unshuffle(torch.cat([x, level_map(x, sigma)], 1), 2)
        return joined(x, f.pixel_shuffle(self.blocks(y), 2), self.residual)


class Dncnn(nn.Module):
    """in_conv, conv_list, out_conv; with or without biases."""

    def __init__(self, bias=True, width=8):
        super().__init__()
        self.in_conv, self.out_conv = nn.Conv2d(1, width, 3, padding=1, bias=bias), nn.Conv2d(width, 1, 3, padding=1, bias=bias)
        self.conv_list = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1, bias=bias) for _ in range(3)])

    def forward(self, x, sigma):
        y = f.relu(self.in_conv(x))
        for conv in self.conv_list:
            y = f.relu(conv(y))
        return x + self.out_conv(y)


class Residual(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.res = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), activation, nn.Conv2d(width, width, 3, padding=1, bias=False))

    def forward(self, x):
        return x + self.res(x)


class Drunet(nn.Module):
    """m_head, m_down1, ...: of one block the body has no index."""

    def __init__(self, blocks=2, widths=(6, 8, 10), activation=None):
        super().__init__()
        act = activation or nn.ReLU()
        stage = lambda w: [Residual(w, act) for _ in range(blocks)]  # noqa: E731
        self.scales = len(widths)
        self.m_head, self.m_tail = nn.Conv2d(2, widths[0], 3, padding=1, bias=False), nn.Conv2d(widths[0], 1, 3, padding=1, bias=False)
        for s, (fine, coarse) in enumerate(zip(widths, widths[1:]), 1):
            setattr(self, f"m_down{s}", nn.Sequential(*stage(fine), nn.Conv2d(fine, coarse, 2, stride=2, bias=False)))
            setattr(self, f"m_up{s}", nn.Sequential(nn.ConvTranspose2d(coarse, fine, 2, stride=2, bias=False), *stage(fine)))
        self.m_body = stage(widths[-1])[0] if blocks == 1 else nn.Sequential(*stage(widths[-1]))

    def forward(self, x, sigma):
        skips = [self.m_head(torch.cat([x, level_map(x, sigma)], 1))]
        for s in range(1, self.scales):
            skips.append(getattr(self, f"m_down{s}")(skips[-1]))
        y = self.m_body(skips[-1])
        for s in range(self.scales - 1, 0, -1):
            y = getattr(self, f"m_up{s}")(y + skips[s])
        return self.m_tail(y + skips[0])


class Drunet3d(nn.Module):
    """deepinv's Drunet of volumes."""

    def __init__(self, blocks=1, widths=(4, 6, 8), activation=f.relu):
        super().__init__()
        self.blocks, self.scales, self.activation = blocks, len(widths), activation
        conv = lambda a, b: nn.Conv3d(a, b, 3, padding=1, bias=False)  # noqa: E731

        def block(w):
            part = nn.Module()
            part.res = nn.ModuleList([conv(w, w), nn.Identity(), conv(w, w)])
            return part
        self.m_head, self.m_tail = conv(2, widths[0]), conv(widths[0], 1)
        for s, (fine, coarse) in enumerate(zip(widths, widths[1:]), 1):
            setattr(self, f"m_down{s}", nn.ModuleList([*(block(fine) for _ in range(blocks)), nn.Conv3d(fine, coarse, 2, stride=2, bias=False)]))
            setattr(self, f"m_up{s}", nn.ModuleList([nn.ConvTranspose3d(coarse, fine, 2, stride=2, bias=False), *(block(fine) for _ in range(blocks))]))
        self.m_body = block(widths[-1]) if blocks == 1 else nn.ModuleList([block(widths[-1]) for _ in range(blocks)])

    def stage(self, x, parts):
        for part in parts:
            x = x + part.res[2](self.activation(part.res[0](x))) if hasattr(part, "res") else part(x)
        return x

    def forward(self, x, sigma):
        skips = [self.m_head(torch.cat([x, level_map(x, sigma)], 1))]
        for s in range(1, self.scales):
            skips.append(self.stage(skips[-1], getattr(self, f"m_down{s}")))
        y = self.stage(skips[-1], [self.m_body] if self.blocks == 1 else self.m_body)
        for s in range(self.scales - 1, 0, -1):
            y = self.stage(y + skips[s], getattr(self, f"m_up{s}"))
        return self.m_tail(y + skips[0])


class BiasFree(nn.BatchNorm2d):
    """y / (deviation + eps)."""

    def forward(self, y):
        column = lambda v: v.view(-1, 1, 1)  # noqa: E731
        return (y - column(self.running_mean)) / (column(self.running_var).sqrt() + self.eps) * column(self.weight) + column(self.bias)


class Unet(nn.Module):
    """Conv1, Up2, Up_conv2, Conv_1x1."""

    def __init__(self, residual="add", skips=True, norm=None, padding="zeros", bias=True, widths=(6, 8)):
        super().__init__()
        self.residual, self.skips, self.scales = residual, skips, len(widths)

        def layer(a, b):
            return [nn.Conv2d(a, b, 3, padding=1, padding_mode=padding, bias=bias), *([norm(b)] if norm else []), nn.ReLU()]

        for s, (a, b) in enumerate(zip((1, *widths), widths), 1):
            setattr(self, f"Conv{s}", nn.Sequential(*layer(a, b), *layer(b, b)))
        for s, (fine, coarse) in enumerate(zip(widths, widths[1:]), 2):
            setattr(self, f"Up{s}", nn.Sequential(nn.Upsample(scale_factor=2), *layer(coarse, fine)))
            setattr(self, f"Up_conv{s}", nn.Sequential(*layer(2 * fine, fine), *layer(fine, fine)))
        self.Conv_1x1 = nn.Conv2d(widths[0], 1, 1, bias=bias)

    def forward(self, x, sigma):
        skips, y = [], x
        for s in range(1, self.scales + 1):
            y = getattr(self, f"Conv{s}")(y if s == 1 else f.max_pool2d(y, 2))
            skips.append(y)
        for s in range(self.scales, 1, -1):
            y = getattr(self, f"Up{s}")(y)
            if self.skips:
                y = getattr(self, f"Up_conv{s}")(torch.cat([skips[s - 2], y], 1))
        return joined(x, self.Conv_1x1(y), self.residual)
