package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/draw"
	"image/jpeg"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// dayRate is the speed-up of a day, which has one request per second. It is sent in an hour, whether or not the
// server answers.
const dayRate = 24

// day is a load of requests, no two of which have byte-identical pictures. Each request follows from the seed and its
// number, so it can be repeated.
type day struct {
	storm
	seed  uint64
	album [][]byte
	rate  float64 // requests a second
	again int     // one in again answered requests is repeated at the end

	given map[int][]byte // their answers
	stops []time.Duration
}

// sample holds the gauges of the server after a number of requests.
type sample struct {
	sent   int
	gauges map[string]float64
	counts map[string]int
}

// Gauges of a server, none of which may grow.
const (
	residentGauge  = "process_resident_memory_bytes"
	heapGauge      = "go_memstats_heap_inuse_bytes"
	filesGauge     = "process_open_fds"
	goroutineGauge = "go_goroutines"
)

// dayWeather sends a day's requests to a server with two replicas in an hour, or a part of them in a shorter time.
func dayWeather(ctx context.Context, score string, length time.Duration, seed uint64) error {
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	d := &day{storm: storm{counts: map[string]int{}}, seed: seed, rate: dayRate, again: 50, given: map[int][]byte{}}
	if err := d.open(folder); err != nil {
		return err
	}
	var samples []sample
	args := []string{"--scorer", filepath.Join(folder, "backbones", "tiny-scorer"), "--replicas", "2", "--wait", "20s"}
	err = withServer(ctx, score, "", args, func(server served) error {
		d.url = server.URL
		if err := d.prepare(folder); err != nil {
			return err
		}
		n := max(1, int(length.Seconds()*dayRate))
		samples = d.pass(ctx, n, server.gauges)
		asked, err := d.askAgain(ctx)
		samples = append(samples, sample{n, server.gauges(), d.counted()})
		d.tell(samples, asked)
		return errors.Join(err, ctx.Err(), flaws(&d.storm))
	})
	for _, name := range []string{residentGauge, heapGauge, filesGauge, goroutineGauge} {
		err = errors.Join(err, flat(samples, name))
	}
	return err
}

// open crops pictures from the photos of the checkout: 16 to 512 pixels wide and high, small ones more often, as PNG
// and JPEG.
func (d *day) open(folder string) error {
	const pieces = 400
	paths, err := filepath.Glob(filepath.Join(folder, "examples", "photos", "*.png"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("no photos in %s: %v", folder, err)
	}
	var photos []image.Image
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		photo, err := png.Decode(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		photos = append(photos, photo)
	}
	return d.cut(photos, pieces)
}

// cut fills the album with crops.
func (d *day) cut(photos []image.Image, pieces int) error {
	rng := rand.New(rand.NewPCG(d.seed, 1<<63))
	for i := range pieces {
		photo := photos[i%len(photos)]
		all := photo.Bounds()
		side := func(most int) int { return min(most, int(16*math.Exp2(5*rng.Float64()))) }
		piece := image.NewRGBA(image.Rect(0, 0, side(all.Dx()), side(all.Dy())))
		free := all.Size().Sub(piece.Rect.Max)
		at := all.Min.Add(image.Pt(rng.IntN(free.X+1), rng.IntN(free.Y+1)))
		draw.Draw(piece, piece.Rect, photo, at, draw.Src)
		var b bytes.Buffer
		var err error
		if rng.IntN(3) == 0 {
			err = jpeg.Encode(&b, piece, &jpeg.Options{Quality: 60 + rng.IntN(40)})
		} else {
			err = png.Encode(&b, piece)
		}
		if err != nil {
			return err
		}
		d.album = append(d.album, b.Bytes())
	}
	return nil
}

// question returns request number k: a source and up to three edits.
func (d *day) question(k int) ([]byte, error) {
	rng := rand.New(rand.NewPCG(d.seed, uint64(k)))
	next := 0
	picture := func() []byte {
		next++
		return remark(d.album[rng.IntN(len(d.album))], fmt.Sprint("request ", k, " picture ", next))
	}
	source, edits := picture(), make([][]byte, 1+rng.IntN(3))
	for i := range edits {
		edits[i] = picture()
	}
	words := fmt.Sprint("make it number ", k, strings.Repeat(" and brighter", rng.IntN(20)))
	return json.Marshal(map[string]any{"source": source, "instruction": words, "edits": edits})
}

// remark adds a comment to a PNG or JPEG: its bytes change, its pixels do not.
func remark(picture []byte, text string) []byte {
	const jpegStart, pngStart = 2, 8 + 25 // the marker, the signature and IHDR
	if picture[0] == 0xff {
		part := binary.BigEndian.AppendUint16([]byte{0xff, 0xfe}, uint16(2+len(text)))
		return slices.Concat(picture[:jpegStart], part, []byte(text), picture[jpegStart:])
	}
	part := append([]byte("tEXtComment\x00"), text...)
	size := binary.BigEndian.AppendUint32(nil, uint32(len(part)-4))
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(part))
	return slices.Concat(picture[:pngStart], size, part, sum, picture[pngStart:])
}

// pass sends n requests: of a hundred, five are malformed, and ten callers disconnect. Every minute, or quarter of a
// short time, it reads the gauges of the server; the first time while the server is idle.
func (d *day) pass(ctx context.Context, n int, look func() map[string]float64) (samples []sample) {
	const most = 1000 // at a time
	var all sync.WaitGroup
	slots := make(chan struct{}, most)
	every := max(1, min(int(60*d.rate), n/4))
	samples = make([]sample, 1+n/every)
	rng := rand.New(rand.NewPCG(d.seed, 1<<62))
	begin := time.Now()
	for k := 0; k <= n && ctx.Err() == nil; k++ {
		due := begin.Add(time.Duration(float64(k) / d.rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		if late := time.Since(due); late > 2*time.Second { // this process was suspended, for example by a shell
			begin = begin.Add(late)
			d.stops = append(d.stops, late)
		}
		if k%every == 0 {
			all.Go(func() { samples[k/every] = sample{k, look(), d.counted()} })
		}
		dice, which, chance := rng.IntN(100), rng.IntN(1<<30), rand.New(rand.NewPCG(rng.Uint64(), 3))
		if k == n {
			break
		}
		select {
		case slots <- struct{}{}:
		default:
			d.count("not sent")
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			d.send(k, dice, which, chance)
		})
	}
	all.Wait()
	return slices.DeleteFunc(samples, func(s sample) bool { return s.gauges == nil }) // interrupted
}

// send sends request k. One in four is one of a few requests whose answers were recorded before.
func (d *day) send(k, dice, which int, chance *rand.Rand) {
	body, err := d.question(k)
	if err != nil {
		d.fault("request %d: %v", k, err)
		return
	}
	switch {
	case dice < 3:
		d.attack(d.hostile[which%len(d.hostile)])
	case dice < 5:
		d.attack(body[:which%len(body)])
	case dice < 15:
		d.vanish(body, chance)
	case dice < 36:
		d.ask(d.questions[which%len(d.questions)])
	default:
		code, answer, err := post(d.url, body)
		switch {
		case err != nil:
			d.count("no answer")
		case code == 429 || code == 503:
			d.count("refused for now")
		case code == 200 && !bytes.Contains(answer, []byte(`"error"`)):
			d.count("answered")
			if which%d.again == 0 {
				d.mu.Lock()
				d.given[k] = answer
				d.mu.Unlock()
			}
		default:
			d.fault("request %d: %d %.200s", k, code, answer)
		}
	}
}

// askAgain repeats some requests while the server is idle: the answers must be byte-identical.
func (d *day) askAgain(ctx context.Context) (asked int, err error) {
	for k, want := range d.given {
		if ctx.Err() != nil {
			return asked, ctx.Err()
		}
		body, err := d.question(k)
		if err != nil {
			return asked, err
		}
		code, answer, err := post(d.url, body)
		if err != nil {
			return asked, err
		}
		if asked++; code != 200 || !bytes.Equal(answer, want) {
			d.fault("request %d got %.200s, and on an idle server %d %.200s", k, want, code, answer)
		}
	}
	return asked, nil
}

// counted returns the current counts.
func (d *day) counted() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := maps.Clone(d.counts)
	now["wrong"] = len(d.wrong)
	return now
}

// tell prints the gauges of the server and the counts of answers.
func (d *day) tell(samples []sample, asked int) {
	fmt.Print("| requests of a day | answered | refused for now | vanished | hostile | no answer | not sent | wrong | " +
		"resident memory | heap in use | files | goroutines |\n" + strings.Repeat("|---", 12) + "|\n")
	for _, s := range samples {
		n, g := s.counts, s.gauges
		fmt.Printf("| %d | %d | %d | %d | %d | %d | %d | %d | %.0f MB | %.1f MB | %.0f | %.0f |\n", s.sent, n["answered"],
			n["refused for now"], n["vanished"], n["hostile"], n["no answer"], n["not sent"], n["wrong"],
			g[residentGauge]/1e6, g[heapGauge]/1e6, g[filesGauge], g[goroutineGauge])
	}
	fmt.Printf("\n%.1f hours of a day; %d requests were repeated on the idle server (last line)",
		float64(samples[len(samples)-1].sent)/3600, asked)
	if len(d.stops) > 0 {
		fmt.Printf("; suspended, or without CPU time, for %v", d.stops)
	}
	fmt.Print("\n\n")
}

// flat returns an error if a gauge grows: its mean in the last third of a load may exceed the mean of the third
// before by at most a tenth plus what one more concurrent request may hold.
func flat(samples []sample, name string) error {
	const warm = 6 // minutes: a new server allocates what it needs
	if len(samples) < 2+warm {
		return nil
	}
	loaded := samples[1 : len(samples)-1] // the server idles before the first and the last
	third := len(loaded) / 3
	mean := func(part []sample) (sum float64) {
		for _, s := range part {
			sum += s.gauges[name] / float64(len(part))
		}
		return sum
	}
	before, after := mean(loaded[len(loaded)-2*third:len(loaded)-third]), mean(loaded[len(loaded)-third:])
	slack := map[string]float64{residentGauge: 25e6, heapGauge: 25e6, filesGauge: 20, goroutineGauge: 60}[name]
	if before == 0 {
		return fmt.Errorf("the server does not report its %s", name)
	}
	if after > 1.1*before+slack {
		return fmt.Errorf("%s grows: %.0f in the second third of the load, %.0f in the last", name, before, after)
	}
	return nil
}
