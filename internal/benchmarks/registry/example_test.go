package registry_test

import (
	"fmt"
	"log"

	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/registry"
)

// A judge's published answers on ImagenHub, by the rule that papers print and by the true Fisher average.
func ExampleFind() {
	b, err := registry.Find("imagenhub")
	if err != nil {
		log.Fatal(err)
	}
	set, err := b.Load(protocol.Options{Data: "../../../testdata/golden/imagenhub"})
	if err != nil {
		log.Fatal(err)
	}
	predictions, err := set.Read("../../../testdata/golden/imagenhub/judges/gpt4o_0shot.jsonl")
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range predictions.Result().Numbers {
		fmt.Printf("%s %.4f\n", n.Name, n.Value)
	}
	// Output:
	// published 0.3821
	// fisher 0.4185
	// human 0.4184
}
