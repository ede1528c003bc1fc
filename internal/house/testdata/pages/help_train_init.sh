mkdir texts
cp examples/photos/README.md instructions.txt
cp testdata/golden/README.md texts/golden.txt
echo 'hidden: 96' >small.yaml
train() { rm -rf backbone && command train "$@"; } # each example makes the same folder
