// Command load measures what callers of score serve notice when servers come and go: with -terminate, whether servers
// that are stopped under load lose an answer; with -rolling, what happens when several servers behind one address are
// replaced; with -while, what happens while a command runs; with -ranks, a trainer's load: lost answers, times,
// memory, and where the time goes. (lab/faults overloads a server.)
//
//	build/lab/load -ranks 64 -for 1h -source a.png -edit b.png bin/score serve --json --scorer a=DIR --scorer b=DIR2
//	build/lab/load -rolling 2 -source a.png -edit b.png bin/score serve --scorer DIR --json --reuse-port
//	build/lab/load -url http://10.96.0.9:8100 -source a.png -edit b.png -while kubectl rollout status deployment/d
//	build/lab/load -terminate 1000 -source a.png -edit b.png bin/score serve --scorer backbones/tiny-scorer
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:8100", "server")
	source := flag.String("source", "", "picture before the edit")
	edit := flag.String("edit", "", "picture after the edit")
	ends := flag.Int("terminate", 0, "stop this many servers, started by the command after the flags")
	together := flag.Int("together", 4, "servers to stop at a time")
	rolling := flag.Int("rolling", 0, "replace this many servers behind -url, one at a time")
	first := flag.Int("first", 8101, "port of the first server, for {port} in the command")
	while := flag.Bool("while", false, "run the command after the flags under load on -url, and report lost requests")
	callers := flag.Int("callers", 8, "concurrent callers")
	r := &ranks{}
	flag.IntVar(&r.n, "ranks", 0, "ranks of a trainer, each sending one request with many edits at a time")
	flag.IntVar(&r.edits, "edits", 24, "edits per request")
	flag.IntVar(&r.size, "size", 1024, "side of their JPEGs in pixels")
	flag.IntVar(&r.groups, "groups", 16, "distinct requests, which the ranks send in turn")
	flag.DurationVar(&r.lasting, "for", 2*time.Minute, "how long the ranks send requests")
	flag.DurationVar(&r.pause, "pause", 0, "pause of a rank before its next request")
	rewards := flag.String("rewards", "", "rewards that the ranks request, separated by commas (default: all)")
	flag.Parse()
	if *rewards != "" {
		r.rewards = strings.Split(*rewards, ",")
	}
	log.SetFlags(0)
	var pictures [2][]byte
	if *source == "" || *edit == "" {
		log.Fatal("-source and -edit are needed: pictures to send")
	}
	for i, path := range []string{*source, *edit} {
		var err error
		if pictures[i], err = os.ReadFile(path); err != nil {
			log.Fatal(err)
		}
	}
	l := &load{url: *url}
	var err error
	l.body, err = json.Marshal(map[string]any{"source": pictures[0], "edits": [][]byte{pictures[1]},
		"instruction": "blur the background"})
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case r.n > 0:
		err = r.run(*url, *source, *edit, flag.Args())
	case flag.NArg() == 0:
		err = errors.New("no command after the flags")
	case *ends > 0:
		err = l.terminate(flag.Args(), *ends, *together)
	case *rolling > 0:
		err = l.rolling(flag.Args(), *rolling, *first, *callers)
	case *while:
		err = l.while(flag.Args(), *callers)
	default:
		err = errors.New("want -terminate, -rolling, -while or -ranks")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// load is a server's address and the request that all callers send.
type load struct {
	url  string
	body []byte
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
