"""Makes tiny random pipelines with diffusers' classes, to try the scripts: --base FOLDER/pix2pix, --base FOLDER/kontext.

    python examples/diffusers/tiny.py FOLDER
"""
import sys
from pathlib import Path

import torch
from diffusers import (AutoencoderKL, DDIMScheduler, FlowMatchEulerDiscreteScheduler, FluxKontextPipeline, FluxTransformer2DModel,
                       StableDiffusionInstructPix2PixPipeline, UNet2DConditionModel)
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5Tokenizer

CLIP = Path(__file__).resolve().parents[2] / "backbones/tiny-clip"


def text_encoder(tokenizer):
    return CLIPTextModel(CLIPTextConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=37, num_hidden_layers=2,
                                        num_attention_heads=4, projection_dim=32, max_position_embeddings=77,
                                        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id))


def pix2pix():
    tokenizer = CLIPTokenizer.from_pretrained(CLIP)
    unet = UNet2DConditionModel(sample_size=16, in_channels=8, out_channels=4, layers_per_block=1, block_out_channels=(32, 64),
                                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
                                cross_attention_dim=32)
    vae = AutoencoderKL(block_out_channels=(32, 64), latent_channels=4, down_block_types=("DownEncoderBlock2D",) * 2,
                        up_block_types=("UpDecoderBlock2D",) * 2)
    scheduler = DDIMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", set_alpha_to_one=False, steps_offset=1)
    return StableDiffusionInstructPix2PixPipeline(vae=vae, text_encoder=text_encoder(tokenizer), tokenizer=tokenizer, unet=unet,
                                                  scheduler=scheduler, safety_checker=None, feature_extractor=None, requires_safety_checker=False)


def kontext():
    tokenizer = CLIPTokenizer.from_pretrained(CLIP)
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0)] + [(chr(c), -3.0) for c in range(33, 127)]
    tokenizer_2 = T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=77)
    transformer = FluxTransformer2DModel(patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16,
                                         num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8),
                                         guidance_embeds=True)
    vae = AutoencoderKL(block_out_channels=(8, 8), latent_channels=4, norm_num_groups=4, down_block_types=("DownEncoderBlock2D",) * 2,
                        up_block_types=("UpDecoderBlock2D",) * 2, use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.1159,
                        scaling_factor=0.3611)
    text_encoder_2 = T5EncoderModel(T5Config(vocab_size=len(tokenizer_2), d_model=32, d_kv=8, d_ff=37, num_layers=1, num_heads=4,
                                             feed_forward_proj="gated-gelu"))
    return FluxKontextPipeline(scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True), vae=vae,
                               text_encoder=text_encoder(tokenizer), tokenizer=tokenizer, text_encoder_2=text_encoder_2,
                               tokenizer_2=tokenizer_2, transformer=transformer)


def main():
    for make in pix2pix, kontext:
        torch.manual_seed(0)
        make().save_pretrained(Path(sys.argv[1]) / make.__name__)


if __name__ == "__main__":
    main()
