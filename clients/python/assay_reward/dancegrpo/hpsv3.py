"""Replaces the package hpsv3 for DanceGRPO's --use_hpsv3: see assay_reward.inprocess."""

from assay_reward.inprocess import HPSv3RewardInferencer

__all__ = ["HPSv3RewardInferencer"]
