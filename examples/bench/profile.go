package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/servers"
)

// profiled is the duration of each profile. At 100 samples a second, this is enough to see
// one percent.
const profiled = 10 * time.Second

// writeProfiles writes first.pprof and replay.pprof into the folder: CPU profiles of
// requests in process, in memory. The profiles include the preparation; leave that out with
// go tool pprof -tagfocus=measured. See writeRedisProfiles for the others.
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
	return writeRedisProfiles(ctx, folder)
}

// writeRedisProfiles writes profiles of services on Redis with auto-pipelining, and of the
// floor. Each has the client too: choose the handler with go tool pprof -focus=main.serve.
func writeRedisProfiles(ctx context.Context, folder string) error {
	s := &suite{}
	var err error
	s.redis, err = servers.StartRedis(ctx)
	if errors.Is(err, servers.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.redis.Stop()
	clients, err := s.redisClients(true)
	defer clients.close()
	if err != nil {
		return err
	}
	files := map[string]string{
		oursFirst: "redis-first.pprof", oursReplay: "redis-replay.pprof",
		byHandFirst: "redis-by-hand-first.pprof", byHandReplay: "redis-by-hand-replay.pprof",
	}
	for _, service := range onRedisServices(clients) {
		file, wanted := files[service.name]
		if !wanted {
			continue
		}
		arm, end, err := service.arm(ctx, 256)
		if err == nil {
			err = profileArm(ctx, filepath.Join(folder, file), arm)
		}
		end()
		if err != nil {
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
