package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	_ "image/png"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/image/draw"

	"assay/client"
	"assay/lab/internal/serve"
)

// ranks is the load of a trainer: every rank requests several rewards for all edits of a group at a time.
type ranks struct {
	n, edits, size int
	groups         int // distinct groups of pictures, which are reused
	rewards        []string
	lasting        time.Duration
	pause          time.Duration // between an answer and the next request of a rank
}

// run starts a server, or uses the one at url, and reports the result of the load. It fails if an answer was lost.
func (r *ranks) run(url, source, edit string, command []string) (err error) {
	if len(command) > 0 {
		server, err := serve.Start(context.Background(), os.Stderr, command...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		url = server.URL
	}
	if len(r.rewards) == 0 {
		if r.rewards, err = served(url); err != nil {
			return err
		}
	}
	requests, err := r.requests(source, edit)
	if err != nil {
		return err
	}
	watch := &watch{url: url}
	before, err := serve.Metrics(url)
	if err != nil {
		return err
	}
	load := &rankLoad{ranks: r, client: client.Client{URL: url, Wait: 15 * time.Minute, HTTP: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: r.n}}}}
	ctx, stop := context.WithTimeout(context.Background(), r.lasting)
	defer stop()
	begin := time.Now()
	var all sync.WaitGroup
	for rank := range r.n {
		all.Go(func() { load.rank(ctx, rank, requests) })
	}
	all.Go(func() { watch.until(ctx, load) })
	all.Wait()
	after, err := serve.Metrics(url)
	if err != nil {
		return err
	}
	load.report(time.Since(begin))
	watch.report(before, after)
	if load.lost > 0 || len(load.took) == 0 {
		return fmt.Errorf("%d requests were lost, %d answered", load.lost, len(load.took))
	}
	return nil
}

// requests makes the groups: a source and its edits as JPEGs of the given size, each with different pixels.
func (r *ranks) requests(source, edit string) ([]client.Request, error) {
	var pictures [2]*image.RGBA
	for i, path := range []string{source, edit} {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		m, _, err := image.Decode(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		pictures[i] = image.NewRGBA(image.Rect(0, 0, r.size, r.size))
		draw.BiLinear.Scale(pictures[i], pictures[i].Bounds(), m, m.Bounds(), draw.Src, nil)
	}
	out := make([]client.Request, r.groups)
	bytes := 0
	for g := range out {
		q := client.Request{Instruction: fmt.Sprintf("blur the background %d", g), Source: encodeJPEG(pictures[0], 100*g)}
		for i := range r.edits {
			q.Edits = append(q.Edits, encodeJPEG(pictures[1], 100*g+i+1))
		}
		for _, name := range r.rewards {
			q.Rewards = append(q.Rewards, client.Reward{Name: name})
		}
		q.Combine = "raw"
		bytes += len(q.Edits[0])
		out[g] = q
	}
	fmt.Printf("%d ranks, %d edits of %d pixels (%d KB) per request, %d rewards, %d groups\n", r.n, r.edits, r.size,
		bytes/len(out)>>10, len(r.rewards), r.groups)
	return out, nil
}

// encodeJPEG encodes a picture with a little noise that depends on seed.
func encodeJPEG(m *image.RGBA, seed int) []byte {
	noisy := image.NewRGBA(m.Bounds())
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	for i, v := range m.Pix {
		noisy.Pix[i] = uint8(min(255, max(0, int(v)+random.IntN(9)-4)))
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, noisy, &jpeg.Options{Quality: 90}); err != nil {
		panic(err) // cannot fail on a valid picture and a buffer
	}
	return b.Bytes()
}

// rankLoad counts the answers of the ranks.
type rankLoad struct {
	*ranks
	client client.Client

	mu    sync.Mutex
	took  []time.Duration
	lost  int
	first error // first loss
}

// rank sends requests until the time is over, and waits for the last one.
func (l *rankLoad) rank(ctx context.Context, rank int, requests []client.Request) {
	for i := rank; ctx.Err() == nil; i++ {
		begin := time.Now()
		answer, err := l.client.Score(context.Background(), requests[i%len(requests)])
		if err == nil {
			err = l.check(answer)
		}
		l.mu.Lock()
		if l.took = append(l.took, time.Since(begin)); err != nil {
			l.lost++
			l.took = l.took[:len(l.took)-1]
			if l.first == nil {
				l.first = err
			}
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(l.pause):
		}
	}
}

// check returns an error if an answer is incomplete.
func (l *rankLoad) check(a *client.Answer) error {
	if len(a.Results) != l.edits {
		return fmt.Errorf("%d results for %d edits", len(a.Results), l.edits)
	}
	for i, r := range a.Results {
		if len(r.Rewards) != len(l.rewards) || r.Reward == nil || math.IsNaN(*r.Reward) {
			return fmt.Errorf("edit %d: %d scores, reward %v", i, len(r.Rewards), r.Reward)
		}
		for _, s := range r.Rewards {
			if s.Error != nil {
				return fmt.Errorf("edit %d, %s: %w", i, s.Name, s.Error)
			}
		}
	}
	return nil
}

func (l *rankLoad) report(took time.Duration) {
	report("requests", l.took)
	n := float64(len(l.took) * l.edits)
	fmt.Printf("lost: %d; %.1f edits/s, %.1f scores/s for %v\n", l.lost, n/took.Seconds(),
		n*float64(len(l.rewards))/took.Seconds(), took.Round(time.Second))
	if l.first != nil {
		fmt.Println("first loss:", l.first)
	}
}

// watch polls a server's metrics.
type watch struct {
	url string
	rss []float64 // MiB
}

// until polls every five seconds, and prints the progress every minute.
func (w *watch) until(ctx context.Context, load *rankLoad) {
	begin, every := time.Now(), time.NewTicker(5*time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		m, err := serve.Metrics(w.url)
		if err != nil {
			fmt.Println("metrics:", err)
			continue
		}
		if w.rss = append(w.rss, m["process_resident_memory_bytes"]/(1<<20)); len(w.rss)%12 == 0 {
			load.mu.Lock()
			answered, lost := len(load.took), load.lost
			load.mu.Unlock()
			fmt.Printf("%4.0f s: %d answers, %d lost, resident %.0f MiB, queue %.0f\n", time.Since(begin).Seconds(),
				answered, lost, w.rss[len(w.rss)-1], m["assay_queue_items"])
		}
	}
}

// report prints the resident memory by quarters of the run, and where the time went.
func (w *watch) report(before, after map[string]float64) {
	if n := len(w.rss) / 4; n > 0 {
		fmt.Print("resident, MiB, by quarters (mean, maximum):")
		for q := range 4 {
			part, sum := w.rss[q*n:(q+1)*n], 0.0
			for _, v := range part {
				sum += v
			}
			fmt.Printf(" %.0f %.0f;", sum/float64(n), slices.Max(part))
		}
		fmt.Println()
	}
	since := func(name string) float64 { return after[name] - before[name] }
	for _, stage := range []string{"decode", "prepare", "wait", "model"} {
		count := since("assay_stage_seconds_count " + stage)
		fmt.Printf("%-8s %9.1f s in %.0f, %.4f s each\n", stage, since("assay_stage_seconds_sum "+stage), count,
			since("assay_stage_seconds_sum "+stage)/max(1, count))
	}
	fmt.Printf("%-8s %9.1f s of CPU; %.0f pictures decoded or cached, %.0f failures, %.0f retries\n", "all",
		since("process_cpu_seconds_total"), since("assay_pictures_total"), since("assay_failures_total"),
		since("assay_retries_total"))
}

// served returns the names of a server's judges.
func served(url string) ([]string, error) {
	r, err := http.Get(url + "/v1/judges")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var said struct{ Judges []client.Judge }
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		return nil, err
	}
	var names []string
	for _, j := range said.Judges {
		names = append(names, j.Name)
	}
	if len(names) == 0 {
		return nil, errors.New("the server has no judge")
	}
	return names, nil
}
