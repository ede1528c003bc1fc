sed 's|\.\./||; s|path: sessions|path: examples/sessions|; s|build/example-label|shards|' examples/label.yaml >label.yaml
for i in 2 3 4; do label --config label.yaml --shard $i/4; done # the other machines
