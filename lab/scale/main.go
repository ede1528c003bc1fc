// Command scale measures the overhead of score batch besides the model, by the number of rows. It scores tables over
// 20,000 small pictures with a scorer that computes nothing, each in a separate process. Reading, decoding, digests,
// the journal and the output table are those of score batch. docs/decisions/clusters.md has the results.
//
//	build/lab/scale --rows 10000,100000,1000000
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/scoring"
	"assay/internal/table"
	"assay/internal/workers"
)

func main() {
	rows := flag.String("rows", "10000,100000", "numbers of rows, separated by commas")
	pictures := flag.Int("pictures", 20_000, "distinct pictures, of 64 x 64 pixels")
	folder := flag.String("folder", "build/scale", "folder for pictures, tables and the store of digests")
	child := flag.Int("child", 0, "score the table with this many rows, and print its cost")
	flag.Parse()
	abs, err := filepath.Abs(*folder)
	switch {
	case err != nil:
	case *child > 0:
		err = score(abs, *child)
	default:
		err = run(abs, *pictures, *rows)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// result is the cost of a table.
type result struct {
	Rows             int
	RowsPerSec, CPU  float64 // CPU: ms per row
	Read, Allocated  float64 // KiB per row
	Live             float64 // MiB of heap in use after all rows are scored
	Scored, Resident float64 // peak resident MiB: until then, and including writing the table
}

func run(folder string, pictures int, rows string) error {
	if err := draw(folder, pictures); err != nil {
		return err
	}
	counts := []int{pictures} // the first run computes the digests of all files
	for text := range strings.SplitSeq(rows, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("--rows: %q is not a number of rows", text)
		}
		counts = append(counts, n)
	}
	fmt.Print("| rows | rows/s | CPU time per row | read per row | allocated per row | heap in use after scoring | " +
		"peak resident memory until then | at the end |\n|---|---|---|---|---|---|---|---|\n")
	var cpu []float64
	for i, n := range counts {
		if err := write(folder, n, pictures); err != nil {
			return err
		}
		r, err := measure(folder, n)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Printf("| %d | %.0f | %.3f ms | %.1f KiB | %.1f KiB | %.1f MiB | %.1f MiB | %.1f MiB |\n", r.Rows,
				r.RowsPerSec, r.CPU, r.Read, r.Allocated, r.Live, r.Scored, r.Resident)
			cpu = append(cpu, r.CPU)
		}
	}
	const hours = 1e8 / 1000 / 3600 // of 1e8 rows per ms of one row
	fmt.Printf("\nExtrapolated: 1e8 rows take %.1f to %.1f core hours besides the model.\n", slices.Min(cpu)*hours,
		slices.Max(cpu)*hours)
	return nil
}

// measure scores a table in a separate process.
func measure(folder string, rows int) (r result, err error) {
	c := exec.Command(os.Args[0], "--child", strconv.Itoa(rows), "--folder", folder)
	c.Env, c.Stderr = append(os.Environ(), "ASSAY_STORE="+filepath.Join(folder, "store")), os.Stderr
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	return r, err
}

func picturePath(i int) string { return fmt.Sprintf("pictures/%03d/%05d.png", i/100, i) }

// draw makes distinct pictures: noise over a colour.
func draw(folder string, pictures int) error {
	errs := make([]error, pictures)
	workers.Do(pictures, func(i int) { errs[i] = drawOne(filepath.Join(folder, picturePath(i)), i) })
	return errors.Join(errs...)
}

func drawOne(path string, i int) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	p, random := data.NewPicture(64, 64), rand.New(rand.NewPCG(uint64(i), 1))
	for k := range p.Pix {
		p.Pix[k] = byte(i*37+k%3*60) + byte(random.IntN(16))
	}
	var b bytes.Buffer
	return errors.Join(p.EncodePNG(&b), os.WriteFile(path, b.Bytes(), 0o666)) // not synced one by one
}

func tablePath(folder string, rows int) string {
	return filepath.Join(folder, fmt.Sprintf("rows-%d.parquet", rows))
}

// write writes a table of edits: groups of four edits of one source for one instruction.
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

// firstPixel is the prepared sample of nothing.
type firstPixel float32

func (firstPixel) Size(edit.Inputs) int { return 1 }

func (nothing) Info() edit.Info              { return edit.Info{Range: edit.Range{0, 10}, Sources: 1} }
func (nothing) Fingerprint() (string, error) { return "nothing", nil }
func (nothing) Close() error                 { return nil }

func (nothing) Prepare(e *edit.Edit) (edit.Inputs, error) {
	if _, err := edit.Decode(e.Source()); err != nil {
		return nil, err
	}
	p, err := edit.Decode(e.Output)
	if err != nil {
		return nil, err
	}
	return firstPixel(float32(p.Pix[0]) / 255), nil
}

func (nothing) Score(_ context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	scores := make([]edit.Score, len(inputs))
	for i, in := range inputs {
		scores[i].Value = float64(in.(firstPixel))
		edit.Range{0, 10}.Scale(&scores[i])
	}
	return scores, make([]error, len(inputs)), nil
}

// score scores a table, and prints a result.
func score(folder string, rows int) error {
	begin := time.Now()
	in := tablePath(folder, rows)
	out := strings.TrimSuffix(in, ".parquet") + "-scores.parquet"
	r := result{Rows: rows}
	var looked error
	progress := func(done, total int) {
		if done == total {
			looked = r.look()
		}
	}
	done, err := scoring.Table(context.Background(), nothing{},
		scoring.Options{Options: table.Options{In: in, Out: out, Progress: progress}})
	if err = errors.Join(err, looked); err != nil {
		return err
	}
	if done.Scored != rows {
		return fmt.Errorf("%d of %d rows were scored", done.Scored, rows)
	}
	wall := time.Since(begin)
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return err
	}
	read, errRead := told("/proc/self/io", "rchar:")
	resident, errPeak := told("/proc/self/status", peak)
	if err := errors.Join(errRead, errPeak); err != nil {
		return err
	}
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	n, cpu := float64(rows), time.Duration(use.Utime.Nano()+use.Stime.Nano())
	r.RowsPerSec, r.CPU, r.Read = n/wall.Seconds(), cpu.Seconds()*1000/n, read/1024/n
	r.Allocated, r.Resident = float64(now.TotalAlloc)/1024/n, resident/1024
	return json.NewEncoder(os.Stdout).Encode(r)
}

// peak is the key of the peak resident memory. Rusage would include the peak of the parent process.
const peak = "VmHWM:"

// look records the current memory figures.
func (r *result) look() error {
	resident, err := told("/proc/self/status", peak)
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	r.Scored, r.Live = resident/1024, float64(now.HeapAlloc)/(1<<20)
	return err
}

// told returns the number after a key in a system file.
func told(path, word string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, behind, _ := strings.Cut(string(text), word)
	fields := strings.Fields(behind)
	if len(fields) == 0 {
		return 0, fmt.Errorf("%s has no %s", path, word)
	}
	return strconv.ParseFloat(fields[0], 64)
}
