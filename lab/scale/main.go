// Command scale measures what score batch costs beside the model, by the number of rows. Tables over 20,000 small
// pictures are scored by a scorer that computes nothing, each in a process of its own. Reading, decoding, digests, the
// journal and the table that is written are those of score batch. With --scorer the model is part of it. docs/scale.md
// has what it found.
//
//	build/lab/scale --rows 10000,100000,1000000 --out build/scale/result
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/workers"
	"assay/model"
	_ "assay/model/families"
	"assay/scoring"
	"assay/table"
)

func main() {
	rows := flag.String("rows", "10000,100000", "numbers of rows, with commas between")
	pictures := flag.Int("pictures", 20_000, "distinct pictures, of 64 x 64 pixels")
	folder := flag.String("folder", "build/scale", "folder for pictures, tables and the store of digests")
	child := flag.Int("child", 0, "score the table of so many rows, and print what it took")
	scorer := flag.String("scorer", "", "scorer directory; none: one that computes nothing")
	heap := flag.String("heap", "", "folder for heap profiles of when all rows are scored, and of when they are written")
	out := flag.String("out", "", "files to write, too: what is named so, with .json and .md behind it")
	budget := flag.Duration("budget", time.Hour, "after which no other table is begun")
	flag.Parse()
	m := &measuring{*pictures, *folder, *scorer, *out, *heap, time.Now().Add(*budget)}
	if err := m.run(*rows, *child); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// measuring is what the flags say.
type measuring struct {
	pictures                  int
	folder, scorer, out, heap string
	until                     time.Time
}

// result is what a table took.
type result struct {
	Rows       int     `json:"rows"`
	RowsPerSec float64 `json:"rows_per_second"`
	CPU        float64 `json:"cpu_ms_per_row"`
	Read       float64 `json:"read_kib_per_row"`
	Allocated  float64 `json:"allocated_kib_per_row"`
	Live       float64 `json:"live_heap_mib"` // when all rows are scored
	Scored     float64 `json:"largest_resident_scored_mib"`
	Resident   float64 `json:"largest_resident_mib"` // when the table is written, too
	Table      float64 `json:"table_mib"`            // the one that was written
	SHA256     string  `json:"sha256"`               // of it
}

const head = "| rows | rows/s | CPU time a row | read a row | allocated a row | heap in use when all are scored | " +
	"largest resident memory until then | and at the end |\n|---|---|---|---|---|---|---|---|\n"

func (r *result) line() string {
	return fmt.Sprintf("| %d | %.0f | %.3f ms | %.1f KiB | %.1f KiB | %.1f MiB | %.1f MiB | %.1f MiB |\n", r.Rows,
		r.RowsPerSec, r.CPU, r.Read, r.Allocated, r.Live, r.Scored, r.Resident)
}

func (m *measuring) run(rows string, child int) (err error) {
	if m.folder, err = filepath.Abs(m.folder); err != nil {
		return err
	}
	if m.heap != "" {
		if err := os.MkdirAll(m.heap, 0o777); err != nil {
			return err
		}
	}
	if child > 0 {
		return m.score(child)
	}
	if err := draw(m.folder, m.pictures); err != nil {
		return err
	}
	counts := []int{m.pictures} // the first run finds the digests of all files
	for text := range strings.SplitSeq(rows, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("--rows: %q is no number of rows", text)
		}
		counts = append(counts, n)
	}
	results, text := []result{}, head
	fmt.Print(head)
	for i, n := range counts {
		if time.Now().After(m.until) {
			break
		}
		if err := write(m.folder, n, m.pictures); err != nil {
			return err
		}
		r, err := m.measure(n)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Print(r.line())
			results, text = append(results, r), text+r.line()
		}
		if err := m.save(results, text); err != nil {
			return err
		}
	}
	if len(results) > 0 {
		low, high := results[0].CPU, results[0].CPU
		for _, r := range results {
			low, high = min(low, r.CPU), max(high, r.CPU)
		}
		const hours = 1e8 / 1000 / 3600 // of 1e8 rows, by ms of one
		fmt.Printf("\nOn paper: 1e8 rows take %.1f to %.1f hours of one core, beside the model.\n", low*hours, high*hours)
	}
	return nil
}

// measure scores a table in a process of its own.
func (m *measuring) measure(rows int) (r result, err error) {
	c := exec.Command(os.Args[0], "--child", strconv.Itoa(rows), "--folder", m.folder, "--scorer", m.scorer, "--heap",
		m.heap)
	c.Env, c.Stderr = append(os.Environ(), "ASSAY_STORE="+filepath.Join(m.folder, "store")), os.Stderr
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	return r, err
}

// save writes what is known so far.
func (m *measuring) save(results []result, text string) error {
	if m.out == "" {
		return nil
	}
	raw, err := json.MarshalIndent(map[string]any{"results": results, "pictures": m.pictures, "scorer": m.scorer,
		"cores": runtime.NumCPU()}, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(m.out+".json", append(raw, '\n'), 0o666),
		os.WriteFile(m.out+".md", []byte(text), 0o666),
	)
}

func picturePath(i int) string { return fmt.Sprintf("pictures/%03d/%05d.png", i/100, i) }

// draw makes pictures that are all different: noise over a colour.
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
	return errors.Join(p.EncodePNG(&b), os.WriteFile(path, b.Bytes(), 0o666)) // not forced to the disk one by one
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

// firstPixel is what nothing prepares.
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

// open opens the scorer that --scorer names, or one that computes nothing.
func (m *measuring) open() (edit.Judge, error) {
	if m.scorer == "" {
		return nothing{}, nil
	}
	return model.OpenScorer(m.scorer, model.Options{})
}

// score scores a table, and prints a result.
func (m *measuring) score(rows int) error {
	s, err := m.open()
	if err != nil {
		return err
	}
	begin := time.Now()
	in := tablePath(m.folder, rows)
	out := strings.TrimSuffix(in, ".parquet") + "-scores.parquet"
	r := result{Rows: rows}
	var looked error
	progress := func(done, total int) {
		if done == total {
			looked = m.look(&r)
		}
	}
	done, err := scoring.Table(context.Background(), s, scoring.Options{
		Options: table.Options{In: in, Out: out, Progress: progress}})
	if err = errors.Join(err, looked, m.profile(fmt.Sprintf("rows-%d-written.pprof", rows))); err != nil {
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
	cpu := time.Duration(use.Utime.Nano() + use.Stime.Nano())
	read, errRead := told("/proc/self/io", "rchar:")
	resident, errPeak := told("/proc/self/status", peak)
	if err := errors.Join(errRead, errPeak); err != nil {
		return err
	}
	table, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	sum, n := sha256.Sum256(table), float64(rows)
	r.RowsPerSec, r.CPU, r.Read = n/wall.Seconds(), cpu.Seconds()*1000/n, read/1024/n
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	r.Allocated = float64(now.TotalAlloc) / 1024 / n
	r.Resident, r.Table, r.SHA256 = resident/1024, float64(len(table))/(1<<20), hex.EncodeToString(sum[:])
	return errors.Join(s.Close(), json.NewEncoder(os.Stdout).Encode(r))
}

// peak is the word behind which the system tells the largest resident memory. Rusage would count what the parent had.
const peak = "VmHWM:"

// look tells what memory holds now.
func (m *measuring) look(r *result) error {
	resident, err := told("/proc/self/status", peak)
	if err != nil {
		return err
	}
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	r.Scored, r.Live = resident/1024, float64(now.HeapAlloc)/(1<<20)
	return m.profile(fmt.Sprintf("rows-%d-scored.pprof", r.Rows))
}

// profile keeps what the last collection of garbage left, if that is wanted.
func (m *measuring) profile(name string) error {
	if m.heap == "" {
		return nil
	}
	f, err := os.Create(filepath.Join(m.heap, name))
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// told finds the number behind a word in a file of the system.
func told(path, word string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, behind, _ := strings.Cut(string(text), word)
	fields := strings.Fields(behind)
	if len(fields) == 0 {
		return 0, fmt.Errorf("%s does not tell %s", path, word)
	}
	return strconv.ParseFloat(fields[0], 64)
}
