package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Redis is a Redis server of this program.
type Redis struct {
	*process
	// Addr is the server's host and port.
	Addr string
	// Version is the version that the server reports.
	Version string
}

// StartRedis runs the redis-server of the PATH, or the program ONCEKEY_REDIS_SERVER.
// Without an installation the error wraps ErrMissing.
func StartRedis(ctx context.Context) (*Redis, error) {
	name := os.Getenv("ONCEKEY_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	binary, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("redis-server: %w", ErrMissing)
	}
	return startOnFreePort(ctx, func(port int) (*Redis, error) { return startRedis(ctx, binary, port) })
}

func startRedis(ctx context.Context, binary string, port int) (*Redis, error) {
	folder, err := os.MkdirTemp("", "oncekey-bench-redis-")
	if err != nil {
		return nil, err
	}
	//nolint:gosec // the program that the user has installed or named
	command := exec.CommandContext(context.WithoutCancel(ctx), binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--dir", folder, "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	server := &Redis{Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	server.process, err = start(ctx, command, folder, syscall.SIGTERM, func(ctx context.Context) error {
		info := client.InfoMap(ctx, "server")
		if info.Err() != nil {
			return info.Err()
		}
		if info.Item("Server", "process_id") != strconv.Itoa(command.Process.Pid) {
			return errOther
		}
		server.Version = info.Item("Server", "redis_version")
		return nil
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}
