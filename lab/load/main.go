// Command load measures a running score serve: the time of a request alone, what the server can do, and what happens at
// ten times that. With -terminate it measures whether servers that are ended under load lose an answer. With -rolling
// it measures what callers of several servers behind one address notice when these are replaced; with -while, what they
// notice as a command runs.
//
//	build/lab/load -url http://127.0.0.1:8100 -source a.png -edit b.png
//	build/lab/load -rolling 2 -source a.png -edit b.png bin/score serve --scorer DIR --json --reuse-port
//	build/lab/load -url http://10.96.0.9:8100 -source a.png -edit b.png -while kubectl rollout status deployment/d
//	build/lab/load -terminate 1000 -source a.png -edit b.png bin/score serve --scorer backbones/tiny-scorer
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:8100", "server")
	source := flag.String("source", "", "picture before the edit")
	edit := flag.String("edit", "", "picture after the edit")
	n := flag.Int("n", 10000, "requests at ten times the capacity")
	factor := flag.Float64("factor", 10, "load, in capacities")
	ends := flag.Int("terminate", 0, "end so many servers, started by the command behind the flags")
	together := flag.Int("together", 4, "servers to end at a time")
	rolling := flag.Int("rolling", 0, "replace so many servers behind -url, one after the other")
	first := flag.Int("first", 8101, "port of the first of them, where {port} stands in their command")
	while := flag.Bool("while", false, "run the command behind the flags, under callers of -url, and say what they lost")
	callers := flag.Int("callers", 8, "callers meanwhile")
	flag.Parse()
	log.SetFlags(0)
	var pictures [2][]byte
	for i, path := range []string{*source, *edit} {
		var err error
		if pictures[i], err = os.ReadFile(path); err != nil {
			log.Fatal(err)
		}
	}
	l := &load{url: *url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
	var err error
	l.body, err = json.Marshal(map[string]any{"source": pictures[0], "edits": [][]byte{pictures[1]},
		"instruction": "blur the background"})
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case *ends > 0:
		err = l.terminate(flag.Args(), *ends, *together)
	case *rolling > 0:
		err = l.rolling(flag.Args(), *rolling, *first, *callers)
	case *while:
		err = l.while(flag.Args(), *callers)
	default:
		l.measure(*n, *factor)
	}
	if err != nil {
		log.Fatal(err)
	}
}

type load struct {
	url    string
	body   []byte
	client *http.Client
}

// post sends a request and returns its status (0: no answer) and time.
func (l *load) post() (int, time.Duration) {
	begin := time.Now()
	r, err := l.client.Post(l.url+"/v1/score", "application/json", bytes.NewReader(l.body))
	if err != nil {
		return 0, time.Since(begin)
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode, time.Since(begin)
}

func (l *load) measure(n int, factor float64) {
	for range 20 {
		l.post()
	}
	var alone []time.Duration
	for range 300 {
		if code, d := l.post(); code == 200 {
			alone = append(alone, d)
		}
	}
	report("alone", alone)

	// two callers who ask again at once keep the server busy
	var mu sync.Mutex
	var all sync.WaitGroup
	done, begin := 0, time.Now()
	for range 2 {
		all.Go(func() {
			for time.Since(begin) < 4*time.Second {
				if code, _ := l.post(); code == 200 {
					mu.Lock()
					done++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	capacity := float64(done) / time.Since(begin).Seconds()
	fmt.Printf("capacity: %.0f requests/s\n", capacity)

	before := l.resident()
	codes := map[int][]time.Duration{}
	gap := time.Duration(float64(time.Second) / (factor * capacity))
	begin = time.Now()
	for i := range n {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * gap)))
		all.Go(func() {
			code, d := l.post()
			mu.Lock()
			codes[code] = append(codes[code], d)
			mu.Unlock()
		})
	}
	all.Wait()
	fmt.Printf("%d requests at %.0f/s in %.1f s\n",
		n, float64(n)/time.Since(begin).Seconds(), time.Since(begin).Seconds())
	for _, code := range []int{200, 429, 0} {
		report(fmt.Sprintf("status %d", code), codes[code])
		delete(codes, code)
	}
	for code, d := range codes {
		report(fmt.Sprintf("status %d", code), d)
	}
	fmt.Printf("resident memory: %.0f MB before, %.0f MB after\n", before/1e6, l.resident()/1e6)
}

func report(what string, d []time.Duration) {
	if len(d) == 0 {
		fmt.Printf("%s: none\n", what)
		return
	}
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(10 * time.Microsecond) }
	fmt.Printf("%s: %d, p50 %v, p90 %v, p99 %v, most %v\n", what, len(d), at(0.5), at(0.9), at(0.99), at(1))
}

var rss = regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`)

func (l *load) resident() float64 {
	r, err := l.client.Get(l.url + "/metrics")
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return 0
	}
	if m := rss.FindSubmatch(raw); m != nil {
		v, _ := strconv.ParseFloat(string(m[1]), 64)
		return v
	}
	return 0
}
