package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/page"
	"assay/internal/trainer/config"
)

// writeFile writes a file of a run directory.
func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// newRun creates a run directory with 30 steps, two validations and 30 predictions. The last line is still being
// written.
func newRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "first")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, config.ConfigFile,
		"backbone: /nowhere/tiny\nout: .\ndata: {train: [edits.csv]}\noptimizer: {lr: 0.25}\n")
	var metrics, predictions strings.Builder
	for i := range 30 {
		fmt.Fprintf(&metrics, `{"kind":"train","step":%d,"epoch":0.5,"samples":%d,"loss":%g,"score_loss":null,`+
			`"seconds":4}`+"\n", i+1, 8*(i+1), 3-float64(i)/20)
		if i%20 == 9 {
			fmt.Fprintf(&metrics, `{"kind":"validation","step":%d,"l1":0.%d,"spearman":null,"rows":30,"best":%t}`+"\n", i+1, i,
				i == 9)
		}
		fmt.Fprintf(&predictions, `{"row":%d,"label":%g,"score01":%g}`+"\n", i, float64(i%3)/2, float64(i)/29)
	}
	writeFile(t, dir, "metrics.jsonl", metrics.String()+`{"kind":"train","st`)
	writeFile(t, dir, "validation.jsonl", predictions.String()+`{"row":30,"label":null,"score01":2}`+"\n")
	return dir
}

// finish writes the run's result.
func finish(t *testing.T, dir string) {
	t.Helper()
	later := time.Now().Add(time.Second)
	scorer := filepath.Join(dir, config.ScorerDir)
	if err := errors.Join(os.MkdirAll(scorer, 0o777), os.Chtimes(scorer, later, later)); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	dir := newRun(t)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Steps) != 30 || len(r.Validations) != 2 || len(r.Predictions) != 31 || r.Finished {
		t.Errorf("got %d steps, %d validations, %d predictions, finished %t, want 30, 2, 31, not", len(r.Steps),
			len(r.Validations), len(r.Predictions), r.Finished)
	}
	if b := r.Best(); b == nil || b.Step != 10 || r.Last().Step != 30 {
		t.Errorf("got best %+v, last %+v, want steps 10 and 30", b, r.Last())
	}
	if n := len(r.Curves()); n != 1 {
		t.Errorf("got %d curves of validation, want one: L1", n)
	}
	finish(t, dir)
	if r, err = Read(dir); err != nil || !r.Finished {
		t.Errorf("with a result: got finished %t, %v, want it", r.Finished, err)
	}
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(filepath.Join(dir, "metrics.jsonl"), later, later); err != nil {
		t.Fatal(err)
	}
	if r, err = Read(dir); err != nil || r.Finished {
		t.Errorf("a result older than the steps: got finished %t, %v, want not", r.Finished, err)
	}
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not a run directory") {
		t.Errorf("an empty folder: got error %v, want one that reports it", err)
	}
	writeFile(t, dir, "validation.jsonl", "{}\n5\n")
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "validation.jsonl:2: ") {
		t.Errorf("a broken line: got error %v, want one with its place", err)
	}
}

// TestPage: the page shows what was trained, curves, calibration and edits, and loads nothing.
func TestPage(t *testing.T) {
	dir := newRun(t)
	finish(t, dir)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var opened []int
	err = r.Choose(func(row int) (*edit.Edit, error) {
		opened = append(opened, row)
		p := data.NewPicture(400, 10)
		var output edit.Picture = p
		if row == 29 {
			output = data.File{Image: data.Image{Path: "gone.png"}, Folder: dir}
		}
		return edit.New(p, output, fmt.Sprintf("instruction <%d>", row)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// By score: 30 (2), 29, 28, 27, then 0, 1, 2, 3; 2 has label 1, and 27 has 0.
	if got := fmt.Sprint(opened); got != "[30 29 28 27 0 1 2 3 2 27 5 24]" {
		t.Errorf("got edits %s, want the highest, the lowest, and those furthest from their labels", got)
	}
	var b bytes.Buffer
	if err := r.Page(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>first</h1>", "Training is done.", "L1 0.29, Spearman -, 30 rows, step 30.",
		"Best: step 10.", "/nowhere/tiny", "<td>0.25</td>", "30, 0.5 epochs, 240 edits", "<h2>Calibration</h2>",
		"<b>20.0</b><br>instruction &lt;30&gt;", "<b>9.3</b> label 0.0<br>instruction &lt;27&gt;",
		"gone.png: no such file", "score pair --scorer " + filepath.Join(dir, "best")} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got no %q in %s", want, b.String())
		}
	}
	for _, not := range []string{"http-equiv", "<script", "src=\"h", "ZgotmplZ"} {
		if strings.Contains(b.String(), not) {
			t.Errorf("got %q in the page, want none", not)
		}
	}
	if n := strings.Count(b.String(), "<svg"); n != 3 {
		t.Errorf("got %d charts, want 3: loss, L1, calibration", n)
	}
	if err := r.Write(); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, File)); err != nil || !bytes.Equal(raw, b.Bytes()) {
		t.Errorf("%s: got %d bytes, %v, want the page", File, len(raw), err)
	}
	broken := errors.New("broken")
	if err := r.Choose(func(int) (*edit.Edit, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("an edit that cannot be read: got error %v, want it", err)
	}
}

// TestHeads: each head has a curve for each of its metrics, and the page shows the mean error of the trained heads.
func TestHeads(t *testing.T) {
	dir := newRun(t)
	line := `{"kind":"validation","step":%d,"l1":null,"spearman":null,"rows":9,"dimensions":{` +
		`"quality":{"rows":5,"l1":0.25,"spearman":null,"pairs":2,"pair_accuracy":0.5},` +
		`"emotion":{"rows":4,"accuracy":0.25},"valence":{"rows":4,"l1":0.125,"spearman":0.5,"untrained":true}}}` + "\n"
	writeFile(t, dir, "metrics.jsonl", fmt.Sprintf(line, 10)+fmt.Sprintf(line, 20))
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range r.Curves() {
		got = append(got, c.Name)
	}
	const want = "emotion: right class|quality: L1|quality: pair accuracy|valence: L1|valence: Spearman"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got curves %s, want %s", s, want)
	}
	var b bytes.Buffer
	if err := r.Page(&b); err != nil {
		t.Fatal(err)
	}
	if want := "mean error of the heads 0.5, 9 rows, step 20."; !strings.Contains(b.String(), want) { // (.25 + .75) / 2
		t.Errorf("got no %q in %s", want, b.String())
	}
}

// TestLongRun: the loss of a long run is plotted as means over parts of the run.
func TestLongRun(t *testing.T) {
	r := &Run{}
	if got := r.Loss(); got != "" {
		t.Errorf("no steps: got %s, want nothing", got)
	}
	dir := newRun(t)
	var metrics strings.Builder
	for i := range 100000 {
		fmt.Fprintf(&metrics, `{"kind":"train","step":%d,"loss":%d}`+"\n", i+1, i%2)
	}
	writeFile(t, dir, "metrics.jsonl", metrics.String())
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Loss()); len(got) > 10000 || !strings.Contains(got, "0.5</text>") {
		t.Errorf("got %d bytes of the chart, want at most 10,000 with the mean 0.5", len(got))
	}
}

// TestServe: the current page is served and reloads itself, only under this machine's names.
func TestServe(t *testing.T) {
	dir := newRun(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- page.Serve(ctx, l, Handler(dir)) }()
	for host, want := range map[string]int{"": 200, "localhost:1": 200, "[::1]:1": 200, "evil.example": 403,
		"10.0.0.1": 403} {
		t.Run("host "+host, func(t *testing.T) {
			q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Host = host
			a, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			body, err := io.ReadAll(a.Body)
			if a.StatusCode != want || err != nil || (want == 200) != strings.Contains(string(body), `content="5"`) {
				t.Errorf("got %d with %d bytes, %v, want %d with a page that loads itself again", a.StatusCode, len(body), err,
					want)
			}
		})
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("page.Serve: got error %v, want none", err)
	}
}

// TestWatch: each validation and the newest step are printed until the run is finished.
func TestWatch(t *testing.T) {
	dir := newRun(t)
	var b bytes.Buffer
	time.AfterFunc(100*time.Millisecond, func() { finish(t, dir) })
	if err := Watch(t.Context(), dir, 10*time.Millisecond, &b); err != nil {
		t.Fatal(err)
	}
	const want = "step 30, epoch 0.5: loss 1.55, learning rate 0, 4 s\n" +
		"validation at step 10: L1 0.9, Spearman -, the best so far\nvalidation at step 30: L1 0.29, Spearman -\n" +
		"training is done\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Watch(ctx, newRun(t), time.Hour, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: got error %v, want its own", err)
	}
}

// TestNextOfText: a run of mode text ends with commands for models that answer, which have no scorer.
func TestNextOfText(t *testing.T) {
	for tune, want := range map[string]string{
		"lora": "score chat --backbone /nowhere/tiny --adapter DIR/best --image a.png",
		"full": "score chat --backbone DIR/best --image a.png",
	} {
		t.Run(tune, func(t *testing.T) {
			dir := newRun(t)
			writeFile(t, dir, config.ConfigFile, "backbone: /nowhere/tiny\nout: .\nmode: text\ntext: {tune: "+tune+"}\n"+
				"data: {train: [chats.jsonl]}\noptimizer: {lr: 0.25}\n")
			r, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Next(); len(got) != 1 || got[0].Value != "train --config "+filepath.Join(dir, config.ConfigFile) {
				t.Errorf("unfinished: got %v, want how to resume", got)
			}
			r.Finished = true
			if got := r.Next()[0].Value; !strings.HasPrefix(got, strings.ReplaceAll(want, "DIR", dir)) {
				t.Errorf("got %q, want %q...", got, want)
			}
			if !slices.Contains(r.Facts, Fact{"steps", "30, 0.5 epochs, 240 conversations"}) {
				t.Errorf("got facts %v, want 240 conversations", r.Facts)
			}
		})
	}
}
