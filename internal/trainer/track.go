package trainer

import (
	"errors"
	"path/filepath"

	"assay/internal/exit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/mlflow"
	"assay/internal/trainer/report"
)

// readTracking reads the MLflow settings, so that a mistake in them is reported before anything is computed.
func (s *setup) readTracking() (err error) {
	if s.config.Reports(config.ReportMLflow) {
		s.mlflow, err = mlflow.FromEnvironment()
	}
	return exit.Usage(err)
}

// track starts sending the run to MLflow.
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

// trackedStatus returns the MLflow status of a run that ended. After a panic there is neither a result nor an error.
func trackedStatus(result *Result, err error) string {
	switch {
	case err == nil && result != nil:
		return mlflow.Finished
	case errors.Is(err, exit.ErrInterrupted):
		return mlflow.Killed
	}
	return mlflow.Failed
}
