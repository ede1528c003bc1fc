package trainer

import (
	"errors"
	"path/filepath"

	"assay/internal/exit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/mlflow"
	"assay/internal/trainer/report"
)

// readTracking reads where the run is sent, so that a mistake in it is told before anything is computed.
func (s *setup) readTracking() (err error) {
	if s.config.Reports(config.ReportMLflow) {
		s.mlflow, err = mlflow.FromEnvironment()
	}
	return exit.Usage(err)
}

// track begins to send the run to MLflow.
func (s *setup) track() error {
	if s.mlflow == nil {
		return nil
	}
	text, err := s.config.YAML()
	if err != nil {
		return err
	}
	params, err := config.Values(text)
	if err != nil {
		return err
	}
	out := s.config.Out
	files := map[string]string{}
	for _, name := range []string{filepath.Base(s.config.ResultPath()), config.BestDir, report.File, config.ConfigFile} {
		files[name] = filepath.Join(out, name)
	}
	s.tracker, err = mlflow.Start(s.mlflow, mlflow.Run{Name: filepath.Base(out),
		Events: filepath.Join(out, s.records.EventsFile()), State: filepath.Join(out, config.MLflowFile), Params: params,
		Files: files, Warn: s.o.warn})
	return err
}

// trackedStatus is the status that MLflow is told of a run that ended. A panic ends one without result and error.
func trackedStatus(result *Result, err error) string {
	switch {
	case err == nil && result != nil:
		return mlflow.Finished
	case errors.Is(err, exit.ErrInterrupted):
		return mlflow.Killed
	}
	return mlflow.Failed
}
