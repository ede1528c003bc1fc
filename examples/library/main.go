// Command library scores an edit with package assay, as any Go program does:
//
//	library SCORER SOURCE EDIT INSTRUCTION
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"

	"assay"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 5 {
		log.Fatal("usage: library SCORER SOURCE EDIT INSTRUCTION")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		log.Fatal("error: ", err)
	}
}

// run prints the score of an edit, and the L2 norm of its gradient with respect to the edit's pixels.
func run(ctx context.Context, scorer, source, output, instruction string) error {
	s, err := assay.Open(ctx, scorer, assay.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	e, err := assay.ReadEdit(ctx, source, output, instruction)
	if err != nil {
		return err
	}
	g, err := s.Gradient(ctx, e)
	if err != nil {
		return err
	}
	squares := 0.0
	for _, v := range g.Output.Values {
		squares += float64(v) * float64(v)
	}
	worst, best := s.Range()
	fmt.Printf("score %.4f (on %g to %g), gradient norm %.4g per 8-bit level\n", g.Value, worst, best, math.Sqrt(squares))
	return nil
}
