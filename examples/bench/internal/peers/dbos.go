package peers

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DBOS is a handler that runs a durable workflow with the idempotency key for its id and with
// one step, which returns the response. A second workflow with the id returns the result of
// the first one. DBOS compares no payloads. The pool is DBOS's own; stop closes it.
func DBOS(ctx context.Context, pool *pgxpool.Pool, response []byte) (handler http.Handler, stop func(), err error) {
	durable, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", SystemDBPool: pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, func() {}, err
	}
	stop = func() { _ = dbos.Shutdown(durable, 10*time.Second) } // its timeout would be an error
	step := func(ctx context.Context) (string, error) { return string(response), ctx.Err() }
	workflow := func(ctx dbos.Context, _ string) (string, error) {
		return dbos.RunAsStep(ctx, step, dbos.WithStepName("pay"))
	}
	dbos.RegisterWorkflow(durable, workflow, dbos.WithWorkflowName("payment"))
	if err := dbos.Launch(durable); err != nil {
		return nil, stop, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var result string
		if err == nil {
			var handle dbos.WorkflowHandle[string]
			if handle, err = dbos.RunWorkflow(durable, workflow, string(body), dbos.WithWorkflowID(r.Header.Get("Idempotency-Key"))); err == nil {
				result, err = handle.GetResult()
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, result) //nolint:gosec // the step has made this response
	}), stop, nil
}
