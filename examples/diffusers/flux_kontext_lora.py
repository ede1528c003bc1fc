"""Tunes FLUX.1 Kontext with a LoRA: on the rows that `score aim --rule aim-40k` selects, with AIM-40k's constants, or with ADIEE's methods.

    score aim --rule aim-40k --in triplets --scorer DIR --out aim
    PYTHONPATH=clients/python python examples/diffusers/flux_kontext_lora.py --base black-forest-labs/FLUX.1-Kontext-dev --mode plain --data aim --out tuned
"""
import numpy
import torch
import torch.nn.functional as F
from diffusers import FluxKontextPipeline
from diffusers.pipelines.flux.pipeline_flux_kontext import calculate_shift, retrieve_timesteps

from tuning import Reference, arguments, kl, train, trainable

TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out", "ff.net.0.proj", "ff.net.2",
           "ff_context.net.0.proj", "ff_context.net.2"]


class Editor:
    def __init__(self, a):
        self.pipeline = FluxKontextPipeline.from_pretrained(a.base, torch_dtype=a.dtype).to(a.device)
        self.transformer, self.vae, self.a = self.pipeline.transformer, self.pipeline.vae, a
        self.reference = Reference(self.transformer, a) if a.beta else None
        for part in self.vae, self.pipeline.text_encoder, self.pipeline.text_encoder_2:
            part.requires_grad_(False)

    def told(self, texts):
        """Embeddings, pooled embeddings, ids of the text's positions."""
        return self.pipeline.encode_prompt(texts, texts, device=self.a.device, max_sequence_length=self.a.text_tokens)

    def encoded(self, pictures):
        c = self.vae.config
        return (self.vae.encode(2 * pictures.to(self.a.dtype) - 1).latent_dist.mode() - c.shift_factor) * c.scaling_factor

    def packed(self, latents):
        return self.pipeline._pack_latents(latents, *latents.shape)

    def positions(self, latents, which):
        ids = self.pipeline._prepare_latent_image_ids(len(latents), latents.shape[2] // 2, latents.shape[3] // 2, latents.device, self.a.dtype)
        ids[..., 0] = which  # 0: the generated picture, 1: the source
        return ids

    def velocity(self, model, x, shown, ids, told, sigma):
        """model: the transformer, or the reference; x, shown: packed latents [N, tokens, channels]; sigma [N]."""
        embeds, pooled, text_ids = told
        guidance = torch.full_like(sigma, self.a.guidance) if self.transformer.config.guidance_embeds else None
        out = model(hidden_states=torch.cat([x, shown], 1), timestep=sigma, guidance=guidance, pooled_projections=pooled,
                    encoder_hidden_states=embeds, txt_ids=text_ids, img_ids=ids, return_dict=False)[0]
        return out[:, : x.shape[1]]

    def loss(self, sources, edits, texts, generator):
        """Flow matching: x = (1 - sigma) latents + sigma noise, whose velocity is noise - latents."""
        with torch.no_grad():
            told, latents, shown = self.told(texts), self.encoded(edits), self.encoded(sources)
            ids = torch.cat([self.positions(latents, 0), self.positions(shown, 1)])
            noise = torch.randn(latents.shape, generator=generator).to(latents)
            sigma = torch.rand(len(texts), generator=generator).to(latents)
            x = (1 - sigma[:, None, None, None]) * latents + sigma[:, None, None, None] * noise
        out = self.velocity(self.transformer, self.packed(x), self.packed(shown), ids, told, sigma)
        return F.mse_loss(out.float(), self.packed(noise - latents).float())

    def edit(self, sources, texts, steps, generator):
        scheduler = self.pipeline.scheduler
        with torch.no_grad():
            told, shown = self.told(texts), self.encoded(sources)
            ids = torch.cat([self.positions(shown, 0), self.positions(shown, 1)])
            x, height, width = self.packed(torch.randn(shown.shape, generator=generator).to(shown)), *sources.shape[2:]
            shown, c = self.packed(shown), scheduler.config
            shift = calculate_shift(x.shape[1], c.get("base_image_seq_len", 256), c.get("max_image_seq_len", 4096), c.get("base_shift", 0.5),
                                    c.get("max_shift", 1.15))
            timesteps, _ = retrieve_timesteps(scheduler, steps, sources.device, sigmas=numpy.linspace(1, 1 / steps, steps), mu=shift)
            scheduler.set_begin_index(0)
        for i, t in enumerate(timesteps):
            with torch.set_grad_enabled(i + 1 == steps):
                at = x, shown, ids, told, t.expand(len(x)).to(x) / 1000
                out = self.velocity(self.transformer, *at)
                x = scheduler.step(out, t, x, return_dict=False)[0].to(shown.dtype)
        distance = kl(out, self.velocity(self.reference, *at)) if self.reference else None
        latents = self.pipeline._unpack_latents(x, height, width, self.pipeline.vae_scale_factor)
        c = self.vae.config
        return (self.vae.decode(latents.to(self.a.dtype) / c.scaling_factor + c.shift_factor).sample + 1) / 2, distance

    def save(self, out):
        from peft import get_peft_model_state_dict

        self.pipeline.save_lora_weights(out, transformer_lora_layers=get_peft_model_state_dict(self.transformer))


def main():
    # Rank 32, AdamW at 1e-4, one epoch: AIM-40k, section 5.1.
    a = arguments(__doc__, rank=32, size=1024, batch=1, steps=0, epochs=1, lr=1e-4, guidance=1.0, text_tokens=512)
    if a.rank < 1:
        raise SystemExit("--rank: want at least 1: this script trains a LoRA")
    editor = Editor(a)
    train(editor, trainable(editor.transformer, a, TARGETS), a)
    editor.save(a.out)


if __name__ == "__main__":
    main()
