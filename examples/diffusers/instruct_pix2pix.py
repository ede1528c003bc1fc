"""Tunes InstructPix2Pix, or MagicBrush with the same architecture, with a scorer: ADIEE's conditioning, its best rows, its feedback.

    score condition --in edits.jsonl --scorer DIR --out labels
    PYTHONPATH=clients/python python examples/diffusers/instruct_pix2pix.py --base timbrooks/instruct-pix2pix --data labels --out tuned
"""
import torch
import torch.nn.functional as F
from diffusers import DDIMScheduler, DDPMScheduler, StableDiffusionInstructPix2PixPipeline

from tuning import Reference, arguments, kl, train, trainable

TARGETS = ["to_q", "to_k", "to_v", "to_out.0"]
DROPPED = 0.05  # share of a batch without text, without source, and without both, each: InstructPix2Pix


class Editor:
    def __init__(self, a):
        self.pipeline = StableDiffusionInstructPix2PixPipeline.from_pretrained(a.base, torch_dtype=a.dtype, safety_checker=None,
                                                                               requires_safety_checker=False).to(a.device)
        self.unet, self.vae, self.a = self.pipeline.unet, self.pipeline.vae, a
        self.vae.requires_grad_(False)
        self.pipeline.text_encoder.requires_grad_(False)
        self.reference = Reference(self.unet, a) if a.beta else None
        self.noise = DDPMScheduler.from_config(self.pipeline.scheduler.config)

    def told(self, texts):
        tokenizer = self.pipeline.tokenizer
        ids = tokenizer(texts, padding="max_length", truncation=True, max_length=tokenizer.model_max_length, return_tensors="pt").input_ids
        return self.pipeline.text_encoder(ids.to(self.a.device))[0]

    def encoded(self, pictures):
        return self.vae.encode(2 * pictures.to(self.a.dtype) - 1).latent_dist

    def randn(self, like, generator):
        return torch.randn(like.shape, generator=generator).to(like)

    def loss(self, sources, edits, texts, generator):
        with torch.no_grad():
            d = self.encoded(edits)
            latents = (d.mean + d.std * self.randn(d.mean, generator)) * self.vae.config.scaling_factor
            shown, told, empty = self.encoded(sources).mode(), self.told(texts), self.told([""])
            hidden = torch.rand(len(texts), generator=generator).to(sources.device)
            told = torch.where((hidden < 2 * DROPPED)[:, None, None], empty, told)
            shown = torch.where(((hidden >= DROPPED) & (hidden < 3 * DROPPED))[:, None, None, None], 0, shown)
            noise = self.randn(latents, generator)
            t = torch.randint(0, self.noise.config.num_train_timesteps, (len(texts),), generator=generator).to(sources.device)
            noisy = self.noise.add_noise(latents, noise, t)
            wanted = noise if self.noise.config.prediction_type == "epsilon" else self.noise.get_velocity(latents, noise, t)
        return F.mse_loss(self.unet(torch.cat([noisy, shown], 1), t, told).sample.float(), wanted.float())

    def edit(self, sources, texts, steps, generator):
        scheduler = DDIMScheduler.from_config(self.pipeline.scheduler.config)
        scheduler.set_timesteps(steps, device=sources.device)
        with torch.no_grad():
            shown, told = self.encoded(sources).mode(), self.told(texts)
            latents = self.randn(shown, generator) * scheduler.init_noise_sigma
        for i, t in enumerate(scheduler.timesteps):
            with torch.set_grad_enabled(i + 1 == steps):
                seen = torch.cat([scheduler.scale_model_input(latents, t), shown], 1)
                out = self.unet(seen, t, told).sample
                latents = scheduler.step(out, t, latents).prev_sample
        distance = kl(out, self.reference(seen, t, told).sample) if self.reference else None
        return (self.vae.decode(latents.to(self.a.dtype) / self.vae.config.scaling_factor).sample + 1) / 2, distance

    def save(self, out):
        if self.a.rank == 0:
            self.pipeline.save_pretrained(out / "pipeline")
            return
        from diffusers.utils import convert_state_dict_to_diffusers
        from peft import get_peft_model_state_dict

        self.pipeline.save_lora_weights(out, unet_lora_layers=convert_state_dict_to_diffusers(get_peft_model_state_dict(self.unet)))


def main():
    # 10,000 steps: ADIEE. Size, batch and learning rate are those of diffusers' train_instruct_pix2pix.py.
    a = arguments(__doc__, rank=16, size=256, batch=4, steps=10_000, lr=5e-5)
    editor = Editor(a)
    train(editor, trainable(editor.unet, a, TARGETS), a)
    editor.save(a.out)


if __name__ == "__main__":
    main()
