package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"assay/client"
)

// Example asks a running server about an edit.
func Example() {
	source, err := os.ReadFile("a.png")
	if err != nil {
		log.Fatal(err)
	}
	edit, err := os.ReadFile("b.png")
	if err != nil {
		log.Fatal(err)
	}
	c := client.Client{URL: "http://127.0.0.1:8100"}
	answer, err := c.Score(context.Background(), client.Request{Source: source, Instruction: "make it brighter",
		Edits: [][]byte{edit}})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range answer.Results {
		fmt.Println(r.Value, r.Error)
	}
}
