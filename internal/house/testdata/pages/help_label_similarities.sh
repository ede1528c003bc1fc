ln -s backbones/tiny-clip clip-vit-base-patch32
ln -s backbones/tiny-dino dinov2-base
