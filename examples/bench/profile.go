package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
)

// profiled is the duration of each profile. At 100 samples a second, this is enough to see
// one percent.
const profiled = 10 * time.Second

// writeProfiles writes first.pprof and replay.pprof into the folder: CPU profiles of
// requests in process, in memory. The profiles include the preparation; leave that out with
// go tool pprof -tagfocus=measured.
func writeProfiles(ctx context.Context, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // profiles are no secret
		return err
	}
	guard := guards()[0] // the guard of net/http
	handler, err := guard.fresh(pay)
	if err != nil {
		return err
	}
	replay, err := replayArm(ctx, "replay", handler, newKey())
	if err != nil {
		return err
	}
	replay.Most = 1 << 16
	for file, arm := range map[string]harness.Arm{"first.pprof": firstArm(ctx, guard), "replay.pprof": replay} {
		if err := profileArm(ctx, filepath.Join(folder, file), arm); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func profileArm(ctx context.Context, path string, arm harness.Arm) (err error) {
	file, err := os.Create(path) //nolint:gosec // the user names the folder
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	for start := time.Now(); time.Since(start) < profiled && ctx.Err() == nil; {
		if arm.Prepare != nil {
			if err := arm.Prepare(arm.Most); err != nil {
				return err
			}
		}
		pprof.Do(ctx, pprof.Labels("phase", "measured"), func(context.Context) { err = arm.Run(arm.Most) })
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
