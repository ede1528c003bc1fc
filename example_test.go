package assay_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"

	"assay"
)

// Which of two edits is the better one?
func Example() {
	ctx := context.Background()
	s, err := assay.Open(ctx, "backbones/tiny-scorer", assay.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	const images = "testdata/oracle/images/"
	var scores []float64
	for _, output := range []string{"coffee.png", "coffee_blur.png"} {
		e, err := assay.ReadEdit(ctx, images+"coffee.png", images+output, "blur the picture")
		if err != nil {
			log.Fatal(err)
		}
		score, err := s.Score(ctx, e)
		if err != nil {
			log.Fatal(err)
		}
		scores = append(scores, score.Value)
	}
	fmt.Println("the blurred one is better:", scores[1] > scores[0])
	// Output: the blurred one is better: true
}

// A file that cannot be read is named.
func ExampleReadEdit() {
	_, err := assay.ReadEdit(context.Background(), "examples/photos/rocket.png", "nowhere.png", "make it grey")
	fmt.Println(err)
	// Output:
	// open nowhere.png: no such file or directory
}

// One edit with two instructions.
func ExampleScorer_Score() {
	ctx := context.Background()
	s, err := assay.Open(ctx, "backbones/tiny-scorer", assay.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	const images = "testdata/oracle/images/"
	for _, instruction := range []string{"blur the picture", "make the picture grey"} {
		e, err := assay.ReadEdit(ctx, images+"coffee.png", images+"coffee_blur.png", instruction)
		if err != nil {
			log.Fatal(err)
		}
		score, err := s.Score(ctx, e)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %.1f\n", instruction, score.Value)
	}
	// Output:
	// blur the picture: 8.2
	// make the picture grey: 0.1
}

// The scorer directory has the range of its scores, and the location of its backbone.
func ExampleOpen() {
	s, err := assay.Open(context.Background(), "backbones/tiny-scorer", assay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	worst, best := s.Range()
	fmt.Printf("%g to %g\n", worst, best)
	// Output: 0 to 10
}

// Edits are read ahead and scored in batches. An edit that cannot be scored does not affect the others.
func ExampleScorer_ScoreAll() {
	ctx := context.Background()
	s, err := assay.Open(ctx, "backbones/tiny-scorer", assay.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	const rocket = "examples/photos/rocket.png"
	edits := func(yield func(*assay.Edit, error) bool) {
		for _, output := range []string{rocket, "nowhere.png", rocket} {
			if !yield(assay.ReadEdit(ctx, rocket, output, "make the picture grey")) {
				return
			}
		}
	}
	for score, err := range s.ScoreAll(ctx, edits) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%.1f\n", score.Value)
	}
	// Output:
	// 0.1
	// open nowhere.png: no such file or directory
	// 0.1
}

// The direction in which every pixel of the edit should change for a better score.
func ExampleScorer_Gradient() {
	ctx := context.Background()
	s, err := assay.Open(ctx, "backbones/tiny-scorer", assay.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	const images = "testdata/oracle/images/"
	e, err := assay.ReadEdit(ctx, images+"coffee.png", images+"coffee_blur.png", "blur the picture")
	if err != nil {
		log.Fatal(err)
	}
	g, err := s.Gradient(ctx, e)
	if err != nil {
		log.Fatal(err)
	}
	sum := 0.0
	for _, v := range g.Output.Values {
		sum += float64(v) * float64(v)
	}
	fmt.Printf("score %.1f of %d x %d pixels\n", g.Value, g.Output.Width, g.Output.Height)
	fmt.Println("can rise:", math.Sqrt(sum) > 0)
	// Output:
	// score 8.2 of 120 x 85 pixels
	// can rise: true
}

// What a run would need on a GPU that is not present. Nothing is trained or written.
func ExampleDryRun() {
	plan, err := assay.DryRun(context.Background(), assay.Training{
		File:         "examples/library/train.yaml",
		DeviceMemory: 24e9,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Steps, "steps of", plan.BatchSize, "edits each")
	fmt.Println("fits:", *plan.Fits)
	// Output:
	// 3 steps of 4 edits each
	// fits: true
}

// A run of three steps. Its configuration is read from a file, with another run directory.
func ExampleTrain() {
	ctx := context.Background()
	run, err := assay.LoadTraining("examples/library/train.yaml")
	if err != nil {
		log.Fatal(err)
	}
	if run.Out, err = os.MkdirTemp("", "assay-train-"); err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(run.Out)
	r, err := assay.Train(ctx, assay.Training{Config: run})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Steps, "steps")
	s, err := assay.Open(ctx, r.Scorer, assay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Close())
	// Output:
	// 3 steps
	// <nil>
}

// A label table of a few photographs. Its configuration is read from a file, with another output folder.
func ExampleLabel() {
	config, err := assay.LoadLabeling("examples/label.yaml")
	if err != nil {
		log.Fatal(err)
	}
	if config.Out, err = os.MkdirTemp("", "assay-label-"); err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(config.Out)
	config.Encoders.Cache = config.Out
	report, err := assay.Label(context.Background(), assay.Labeling{Config: config})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.TableRows, "rows,", report.Labelled, "with a label")
	// Output: 32 rows, 31 with a label
}
