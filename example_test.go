package assay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"

	"assay"
	"assay/labeling"
	"assay/trainer/config"
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
	var pairs []assay.Pair
	for _, edit := range []string{"coffee.png", "coffee_blur.png"} {
		pair, err := assay.ReadPair(ctx, images+"coffee.png", images+edit, "blur the picture")
		if err != nil {
			log.Fatal(err)
		}
		pairs = append(pairs, pair)
	}
	results, err := s.ScoreAll(ctx, pairs)
	if err := errors.Join(err, results[0].Err, results[1].Err); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the blurred one is better:", results[1].Score > results[0].Score)
	// Output: the blurred one is better: true
}

// A file that cannot be read is named.
func ExampleReadPair() {
	ctx := context.Background()
	pair, err := assay.ReadPair(ctx, "examples/photos/rocket.png", "examples/photos/rocket.png", "make it grey")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pair.Edit.Width, "x", pair.Edit.Height, "pixels")
	_, err = assay.ReadPair(ctx, "examples/photos/rocket.png", "nowhere.png", "make it grey")
	fmt.Println(err)
	// Output:
	// 384 x 256 pixels
	// open nowhere.png: no such file or directory
}

// One edit, asked for in two ways.
func ExampleScorer_Score() {
	ctx := context.Background()
	s, err := assay.Open(ctx, "backbones/tiny-scorer", assay.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	const images = "testdata/oracle/images/"
	for _, instruction := range []string{"blur the picture", "make the picture grey"} {
		pair, err := assay.ReadPair(ctx, images+"coffee.png", images+"coffee_blur.png", instruction)
		if err != nil {
			log.Fatal(err)
		}
		score, err := s.Score(ctx, pair)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %.1f\n", instruction, score)
	}
	// Output:
	// blur the picture: 8.2
	// make the picture grey: 0.1
}

// The scorer directory says what its scores range over, and where its backbone lies.
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

// Many pairs are prepared ahead and scored in batches. One that cannot be scored does not keep the others from it.
func ExampleScorer_ScoreAll() {
	ctx := context.Background()
	s, err := assay.Open(ctx, "backbones/tiny-scorer", assay.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	pair, err := assay.ReadPair(ctx, "examples/photos/rocket.png", "examples/photos/rocket.png", "make the picture grey")
	if err != nil {
		log.Fatal(err)
	}
	empty := pair
	empty.Instruction = ""
	results, err := s.ScoreAll(ctx, []assay.Pair{pair, empty, pair})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("scored:", results[0].Err == nil, results[1].Err == nil, results[2].Err == nil)
	fmt.Println("the same pair, the same score:", results[0].Score == results[2].Score)
	// Output:
	// scored: true false true
	// the same pair, the same score: true
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
	pair, err := assay.ReadPair(ctx, images+"coffee.png", images+"coffee_blur.png", "blur the picture")
	if err != nil {
		log.Fatal(err)
	}
	g, err := s.Gradient(ctx, pair)
	if err != nil {
		log.Fatal(err)
	}
	sum := 0.0
	for _, v := range g.Edit.Values {
		sum += float64(v) * float64(v)
	}
	fmt.Printf("score %.1f of %d x %d pixels\n", g.Score, g.Edit.Width, g.Edit.Height)
	fmt.Println("can rise:", math.Sqrt(sum) > 0)
	// Output:
	// score 8.2 of 120 x 85 pixels
	// can rise: true
}

// What a run would take, on a GPU that is not here. Nothing is trained or written.
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

// A run of three steps. Its configuration is a file's, with another run directory.
func ExampleTrain() {
	ctx := context.Background()
	run, err := config.Load("examples/library/train.yaml")
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

// A label table of a few photographs. Its configuration is a file's, with another output folder.
func ExampleLabel() {
	config, err := labeling.Load("examples/label.yaml")
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
