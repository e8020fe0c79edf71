"""What every number of an evaluation means, as results.json and the report say it."""

from __future__ import annotations

__all__ = ["DEFINITIONS"]

DEFINITIONS = {
    "clean_accuracy": "Share of the pictures whose first answer is right (top-1), without any corruption.",
    "class_accuracies": "Class by class: share of its pictures that is right as they are (clean), averaged over corruptions "
    "and severities (corrupted), and under each attack.",
    "mean_accuracy_15": "Top-1 accuracy, averaged over the 15 common corruptions and their 5 severities.",
    "mean_accuracy_19": "Top-1 accuracy, averaged over all 19 corruptions and their 5 severities.",
    "mean_accuracy": "Top-1 accuracy, averaged over the corruptions and severities that were measured.",
    "retention": "Mean accuracy under corruption over clean accuracy: the share of the accuracy that survives. Over the 15 "
    "common corruptions where all of them were measured, else over those that were.",
    "mean_corruption_error": "mCE: for each of the 15 common corruptions, the summed error over the 5 severities divided by "
    "that of AlexNet on ImageNet-C; then the mean. Comparable with published numbers only on ImageNet-C itself.",
    "relative_mean_corruption_error": "As mCE, but of what each corruption adds to the clean error, for both networks "
    "(AlexNet's clean error 0.4348).",
    "expected_calibration_error": "Gap between confidence and accuracy, in 15 equal bins of confidence, weighted by size. "
    "Without an interval: bootstrap samples show larger gaps than the pictures themselves.",
    "imagenet_a_accuracy": "Top-1 accuracy on ImageNet-A; only the 200 classes of that set compete.",
    "imagenet_r_accuracy": "Top-1 accuracy on ImageNet-R; only the 200 classes of that set compete.",
    "patches_accuracy": "Top-1 accuracy with a random tenth of the patches replaced by noise.",
    "fgsm_accuracy": "Top-1 accuracy under FGSM: one step along the sign of the gradient, against the true class. Every "
    "picture counts, also those that were wrong before.",
    "pgd_accuracy": "Top-1 accuracy under PGD: several such steps within eps of the picture; the last one counts.",
    "patch_fool_accuracy": "Top-1 accuracy under Patch-Fool: patches that the network attends to are replaced by what "
    "misleads it most.",
    "patches_random_accuracy": "Top-1 accuracy with random patches covered by noise, averaged over several choices of patches "
    "(masks).",
    "patches_random_worst": "Share of the pictures that are right under every one of the masks.",
    "patches_random_spread": "Standard deviation of the accuracy over the masks. Without an interval: bootstrap samples show "
    "larger spreads than the pictures themselves.",
    "patches_adversarial_accuracy": "Top-1 accuracy with the patches covered by noise that a corruption network chooses.",
    "autoattack_accuracy": "Top-1 accuracy under AutoAttack: a picture counts as wrong when one attack of its ensemble "
    "succeeds.",
    "mean_perturbation": "How far an attack goes, averaged over the pictures: the largest change of a value (1 is white), the "
    "L2 norm of the change over all values, and the share of the pixels that changed.",
    "mean_flip_rate": "mFR: for each of the 10 sequence types of ImageNet-P, the share of frames at which the answer changes, "
    "over that of AlexNet; then the mean. The published table of AlexNet's numbers is yet to be confirmed.",
    "mean_flip_probability": "Share of frames at which the answer changes, averaged over the sequence types.",
    "mean_top5_distance": "uT5D: how far the five best answers move from frame to frame (0 to 18), averaged over the "
    "sequence types; not divided by AlexNet's.",
    "corruption_errors": "CE of each corruption: summed error over the 5 severities divided by AlexNet's on ImageNet-C. Extra "
    "corruptions do not count in mCE.",
    "corruption_accuracies": "Top-1 accuracy under each corruption, averaged over its severities.",
    "group_accuracies": "Top-1 accuracy, averaged over the corruptions of a group (noise, blur, weather, digital) that were "
    "measured and their severities. With all 19 corruptions, the extra ones count in their groups.",
    "interval": "95 % interval. Of a single accuracy (clean, one corruption at one severity, one attack) Wilson's: all "
    "accuracies under which so many right answers would be no surprise. Of means over several cells, retention and mCE from "
    "1000 bootstrap samples of the pictures, the same ones in every cell; where all samples agree, a mean gets Wilson's, and "
    "other numbers get none.",
    "differences": "A number of one network minus that of another, on the pictures that both saw. Its 95 % interval is from "
    "1000 bootstrap samples that are the same pictures for both (paired), so it says more than two separate intervals. "
    "Where it includes 0, the difference may be chance. Without an interval, the pictures do not tell: no picture is right "
    "for one network and wrong for the other, or too few are.",
}
