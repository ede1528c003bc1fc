// Command scale measures what score batch costs beside the model, by the number of rows: tables over 20,000 small
// pictures are scored by a scorer that computes nothing, each in a process of its own. Reading, decoding, digests, the
// journal and the table that is written are those of score batch. docs/scale.md has what it found.
//
//	go run ./tools/scale --rows 10000,100000,1000000
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"assay/data"
	"assay/model"
	"assay/scoring"
)

func main() {
	rows := flag.String("rows", "10000,100000", "numbers of rows, with commas between")
	pictures := flag.Int("pictures", 20_000, "distinct pictures, of 64 x 64 pixels")
	folder := flag.String("folder", "build/scale", "folder for pictures, tables and the store of digests")
	child := flag.Int("child", 0, "score the table of so many rows, and print what it took")
	flag.Parse()
	if err := run(*rows, *pictures, *folder, *child); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(rows string, pictures int, folder string, child int) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if child > 0 {
		return score(folder, child)
	}
	if err := draw(folder, pictures); err != nil {
		return err
	}
	counts := []int{pictures} // the first run finds the digests of all files
	for _, text := range strings.Split(rows, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("--rows: %q is no number of rows", text)
		}
		counts = append(counts, n)
	}
	fmt.Println("| rows | rows/s | CPU time a row | read a row | largest resident memory |\n|---|---|---|---|---|")
	for i, n := range counts {
		if err := write(folder, n, pictures); err != nil {
			return err
		}
		c := exec.Command(os.Args[0], "--child", strconv.Itoa(n), "--folder", folder)
		c.Env, c.Stderr = append(os.Environ(), "ASSAY_STORE="+filepath.Join(folder, "store")), os.Stderr
		out, err := c.Output()
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Print(string(out))
		}
	}
	return nil
}

func picturePath(i int) string { return fmt.Sprintf("pictures/%03d/%05d.png", i/100, i) }

// draw makes pictures that are all different: noise over a colour.
func draw(folder string, pictures int) error {
	for i := range pictures {
		path := filepath.Join(folder, picturePath(i))
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		p, random := data.NewPicture(64, 64), rand.New(rand.NewPCG(uint64(i), 1))
		for k := range p.Pix {
			p.Pix[k] = byte(i*37+k%3*60) + byte(random.IntN(16))
		}
		if err := p.WritePNG(path); err != nil {
			return err
		}
	}
	return nil
}

func tablePath(folder string, rows int) string {
	return filepath.Join(folder, fmt.Sprintf("rows-%d.parquet", rows))
}

// write writes a table of edits: groups of four edits of one source by one instruction.
func write(folder string, rows, pictures int) error {
	return data.WriteTable(tablePath(folder, rows), func(yield func(data.Row, error) bool) {
		for i := range rows {
			row := data.Row{
				ID:          fmt.Sprintf("%08d", i),
				Source:      data.Image{Path: picturePath(i / 4 * 7919 % pictures)},
				Edit:        data.Image{Path: picturePath((i*104729 + 1) % pictures)},
				Instruction: fmt.Sprintf("make it number %d", i/4%100),
			}
			if !yield(row, nil) {
				return
			}
		}
	})
}

// nothing is a scorer that computes nothing.
type nothing struct{}

func (nothing) Config() model.ScorerConfig {
	return model.ScorerConfig{ScoreRange: model.ScoreRange{0, 10}}
}
func (nothing) Fingerprint() (string, error) { return "nothing", nil }

func (nothing) Prepare(p model.Pair) (*model.Sample, error) {
	return &model.Sample{Pictures: []*model.Picture{{Pixels: []float32{float32(p.Edit.Pix[0]) / 255}}}}, nil
}

func (nothing) Score(_ context.Context, samples []*model.Sample) ([]float64, error) {
	scores := make([]float64, len(samples))
	for i, s := range samples {
		scores[i] = float64(s.Pictures[0].Pixels[0])
	}
	return scores, nil
}

// score scores a table, and prints a line of the result.
func score(folder string, rows int) error {
	begin := time.Now()
	in := tablePath(folder, rows)
	r, err := scoring.Table(context.Background(), nothing{}, scoring.TableOptions{
		In: in, Out: strings.TrimSuffix(in, ".parquet") + "-scores.parquet"})
	if err != nil {
		return err
	}
	if r.Scored != rows {
		return fmt.Errorf("%d of %d rows were scored", r.Scored, rows)
	}
	wall := time.Since(begin)
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return err
	}
	cpu := time.Duration(use.Utime.Nano() + use.Stime.Nano())
	read, err := bytesRead()
	if err != nil {
		return err
	}
	fmt.Printf("| %d | %.0f | %.3f ms | %.1f KiB | %.1f MiB |\n", rows, float64(rows)/wall.Seconds(),
		cpu.Seconds()*1000/float64(rows), float64(read)/1024/float64(rows), float64(use.Maxrss)/1024)
	return nil
}

// bytesRead are those that this process asked the system for.
func bytesRead() (n int64, err error) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(string(text), "rchar: %d", &n)
	return n, err
}

var _ scoring.TableScorer = nothing{}
