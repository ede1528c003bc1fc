cp "$PAGES/product.onnx" m.onnx
cp "$PAGES/product.safetensors" in.safetensors
