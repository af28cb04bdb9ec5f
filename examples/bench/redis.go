package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// redisFloor compares the store's steps with the minimal commands.
func redisFloor(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{Title: "Redis: the store against bare commands"}
	if s.redis == nil {
		section.Text = []string{"Left out: Redis is not installed."}
		return section, nil
	}
	size, err := s.redisValueSize(ctx)
	if err != nil {
		return section, err
	}
	section.Text = []string{fmt.Sprintf("The same client, concurrency and value size (%d bytes, a finished record's) in each arm.", size)}
	for _, concurrency := range []int{1, 16, 64} {
		table, err := s.compareRedis(ctx, concurrency, size)
		if err != nil {
			return section, err
		}
		section.Tables = append(section.Tables, table)
	}
	section.Targets, err = s.redisRoundTrips(ctx)
	return section, err
}

// redisValueSize is the size of a finished record, so that SET and GET carry as much.
func (s *suite) redisValueSize(ctx context.Context) (int, error) {
	client := s.redisClient(0)
	defer client.Close()
	claim := newClaim(newKey())
	work := storeWork{ctx, redisstore.New(client), 1}
	if err := work.finish([]storage.Claim{claim}, newResult()); err != nil {
		return 0, err
	}
	length, err := client.StrLen(ctx, redisstore.DefaultPrefix+claim.Key).Result()
	return int(length), err
}

func (s *suite) compareRedis(ctx context.Context, concurrency, size int) (report.Table, error) {
	steady, emptied := s.redisClient(0), s.redisClient(1)
	defer steady.Close()
	defer emptied.Close()
	flush := func() error { return emptied.FlushDB(ctx).Err() }
	arms, err := redisArms(ctx, "", concurrency, size, steady, emptied, flush)
	if err != nil {
		return report.Table{}, err
	}
	if concurrency >= pipelined {
		pipe, err := steady.AutoPipeline()
		if err != nil {
			return report.Table{}, err
		}
		pipeEmptied, err := emptied.AutoPipeline()
		if err != nil {
			return report.Table{}, err
		}
		more, err := redisArms(ctx, "auto-pipelining: ", concurrency, size, pipe, pipeEmptied, flush)
		if err != nil {
			return report.Table{}, err
		}
		arms = append(arms, more...)
	}
	c, err := harness.Compare(ctx, s.plan(0), arms)
	if err != nil {
		return report.Table{}, err
	}
	table := report.Table{
		Caption: fmt.Sprintf("%d at once; A/A control %s", concurrency, report.Interval(c.Control())),
		Head:    []string{"arm", "operations/s", "time x bare SET PX", "time x bare GET"},
	}
	for _, arm := range arms {
		prefix := ""
		if strings.HasPrefix(arm.Name, "auto") {
			prefix = "auto-pipelining: "
		}
		table.Rows = append(table.Rows, []string{
			arm.Name, report.Number(float64(int(1e9 / c.Median(arm.Name).Time))),
			report.Interval(c.Ratio(arm.Name, prefix+"SET PX")), report.Interval(c.Ratio(arm.Name, prefix+"GET")),
		})
	}
	return table, nil
}

// nearContext always has a deadline in half a second, and no timer. The contexts of the
// engine's calls are the same, and a store need not watch such a context.
type nearContext struct{ context.Context }

func (nearContext) Deadline() (time.Time, bool) { return time.Now().Add(time.Second / 2), true }

// redisArms are the bare commands and the store's steps over one client. Arms with new keys
// use the client emptied, whose database flush empties before each slice.
func redisArms(ctx context.Context, prefix string, concurrency, size int, steady, emptied redis.UniversalClient, flush func() error) ([]harness.Arm, error) {
	value := make([]byte, size)
	rand.Read(value) // rand.Read never fails
	known := redisstore.DefaultPrefix + newClaim(newKey()).Key
	if err := steady.Set(ctx, known, value, time.Hour).Err(); err != nil {
		return nil, err
	}
	var keys []storage.Claim
	set := harness.Arm{
		Name: prefix + "SET PX", Most: 1 << 16,
		Prepare: func(n int) error { keys = newClaims(n); return flush() },
		Run: func(n int) error {
			return harness.Parallel(concurrency, n, func(_, i int) error {
				return emptied.Set(ctx, redisstore.DefaultPrefix+keys[i].Key, value, time.Hour).Err()
			})
		},
	}
	get := harness.Arm{Name: prefix + "GET", Run: func(n int) error {
		return harness.Parallel(concurrency, n, func(_, _ int) error { return steady.Get(ctx, known).Err() })
	}}
	near := nearContext{ctx}
	growing, constant := storeWork{near, redisstore.New(emptied), concurrency}, storeWork{near, redisstore.New(steady), concurrency}
	claim := newClaim(newKey())
	if err := constant.finish([]storage.Claim{claim}, newResult()); err != nil {
		return nil, err
	}
	return []harness.Arm{
		set, get, growing.acquireArm(prefix+"acquire", flush), growing.settleArm(prefix+"settle", flush),
		growing.firstArm(prefix+"first (acquire and settle)", flush), constant.replayArm(prefix+"replay", always(claim)),
	}, nil
}

// redisRoundTrips counts the round trips of each kind of request. It has no noise.
func (s *suite) redisRoundTrips(ctx context.Context) ([]report.Target, error) {
	client := s.redisClient(0)
	defer client.Close()
	counter := &tripCounter{}
	client.AddHook(counter)
	counts, err := countTrips(ctx, redisstore.New(client), &counter.trips)
	if err != nil {
		return nil, err
	}
	var targets []report.Target
	for _, kind := range requestKinds {
		want := 1
		if kind == "first" {
			want = 2
		}
		targets = append(targets, report.Exactly("round trips, "+kind, want, counts[kind]))
	}
	cached, err := countTrips(ctx, tieredstore.New(newMemory(), redisstore.New(client)), &counter.trips)
	return append(targets, report.Exactly("round trips, replay from memory before Redis", 0, cached["replay"])), err
}

// tripCounter is a hook that counts round trips. A pipeline is one round trip. The
// commands that the client and the store send once by themselves do not count.
type tripCounter struct{ trips atomic.Int64 }

func (c *tripCounter) count(command redis.Cmder) {
	switch command.Name() {
	case "hello", "client", "config", "info", "select", "auth":
	default:
		c.trips.Add(1)
	}
}

// DialHook implements redis.Hook.
func (c *tripCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

// ProcessHook implements redis.Hook.
func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		c.count(command)
		return next(ctx, command)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.count(commands[0])
		return next(ctx, commands)
	}
}
