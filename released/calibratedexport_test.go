package released_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"assay/edit"
	"assay/internal/calibration"
	"assay/internal/oracle"
	"assay/model"
	"assay/released"
)

// calibrated adds maps to a scorer directory, as score calibrate does, and opens it.
func calibrated(t *testing.T, dir string, maps ...calibration.Map) *model.Scorer {
	t.Helper()
	state, err := model.LoadScorerState(dir)
	if err != nil {
		t.Fatal(err)
	}
	k := calibration.Calibration{Format: 1, Scorer: state.Digest(), Maps: maps}
	if err := k.Write(filepath.Join(dir, calibration.File)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, model.ConfigFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = append(bytes.TrimRight(text, "\n"), "\ncalibration: "+calibration.File+"\n"...)
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return openDir(t, dir, "")
}

// TestExportCalibrated: the graphs of calibrated judges return what the scorer returns: the score, its standard
// deviation, and calibrated dimensions. The passes of EditReward are combined by fusion.onnx; HPSv3 is one graph.
func TestExportCalibrated(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		cases := oracle.Read[editSuite](t, filepath.Join(dir, "cases.json")).Cases
		score := calibration.Map{Method: calibration.Platt, A: -1.5, B: 0.2}
		quality := calibration.Map{Dimension: "quality", Method: calibration.Isotonic, X: []float64{-2, -0.5, 0.25, 2},
			Y: []float64{0, 0.3, 0.35, 1}}
		for _, c := range cases[:3] {
			o := released.Options{Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "weights"),
				Prompts: filepath.Join(dir, "prompts"), Config: filepath.Join(dir, c.Config),
				Out: filepath.Join(t.TempDir(), "scorer")}
			if _, err := released.Import("editreward", o); err != nil {
				t.Fatal(err)
			}
			scorer := calibrated(t, o.Out, score, quality)
			e, sample := openExport(t, scorer), prepare(t, scorer, c.pair(t, s))
			outputs := map[string][]float32{}
			for _, r := range readings(t, scorer, sample) {
				out := e.state(t, r.IDs[:r.At+1], sample)
				outputs["head."+r.Pass] = out["head."+r.Pass].Float32s()
			}
			want := judge(t, scorer, sample)
			out := e.fuse(t, outputs)
			if !e.judge.Calibrated || len(e.judge.Calibration) != 2 || want.Raw01 == nil {
				t.Fatalf("graphs.json says calibrated: %v, by %+v, want 2 maps; the scorer says %+v", e.judge.Calibrated,
					e.judge.Calibration, want)
			}
			near(t, "raw score", *want.Raw01, c.Score)
			near(t, "score", number(out, "score01"), want.Score01)
			near(t, "sigma", number(out, "sigma01"), want.Sigma)
			near(t, "quality", number(out, "calibrated.quality"), want.Dimensions[1].Value)
			if out["calibrated.following"] != nil {
				t.Error("following has no map")
			}
		}

		o, all := hpsOptions(t, s)
		o.Out = filepath.Join(t.TempDir(), "scorer")
		if _, err := released.Import("hpsv3", o); err != nil {
			t.Fatal(err)
		}
		const name = "preference"
		one := calibrated(t, o.Out, calibration.Map{Dimension: name, Method: calibration.Inverse, X: []float64{-1.5, 1},
			Y: []float64{0.1, 1}})
		e := openExport(t, one)
		for _, c := range all.Cases {
			sample := prepare(t, one, &edit.Edit{Output: s.picture(t, c.Picture), Instruction: c.Text})
			want, out := judge(t, one, sample), e.state(t, c.IDs[:c.At+1], sample)
			near(t, "score", number(out, "score01"), want.Score01)
			near(t, "sigma", number(out, "sigma01"), want.Sigma)
			near(t, name, number(out, "calibrated."+name), want.Dimensions[0].Value)
			near(t, "output of the head", number(out, "score01."+name), c.Score)
		}
	})
}
