package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const (
	redisPooled    = "Redis, 16 at once"
	redisPipelined = "Redis, 256 at once, auto-pipelining"
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
	if err := s.compareRedis(ctx, &section, redisPooled, 16, size); err != nil {
		return section, err
	}
	if err := s.compareRedis(ctx, &section, redisPipelined, 256, size); err != nil {
		return section, err
	}
	if s.only == nil {
		err = s.redisRoundTrips(ctx, &section)
	}
	return section, err
}

// redisValueSize is the size of a finished record, so that SET and GET carry as much.
func (s *suite) redisValueSize(ctx context.Context) (int, error) {
	client := s.redisClient(0)
	defer client.Close()
	claim := newClaim(newKey())
	work := storeWork{ctx: ctx, store: redisstore.New(client), workers: 1}
	if err := work.finish([]storage.Claim{claim}, newResult()); err != nil {
		return 0, err
	}
	length, err := client.StrLen(ctx, redisstore.DefaultPrefix+claim.Key).Result()
	return int(length), err
}

func (s *suite) compareRedis(ctx context.Context, section *report.Section, name string, callers, size int) error {
	clients, err := s.redisClients(name == redisPipelined)
	defer clients.close()
	if err != nil {
		return err
	}
	arms, err := redisArms(ctx, callers, size, clients)
	if err != nil {
		return err
	}
	plan := s.plan(0)
	plan.Server = s.redis.ProcessorTime
	err = s.compare(ctx, section, comparison{name, plan, arms, []column{
		rateColumn, p50Column, p99Column, cpuColumn, serverColumn,
		timesColumn("time x SET PX", arm("SET PX")), timesColumn("time x GET", arm("GET")),
	}})
	return err
}

// nearContext always has a deadline in half a second, and no timer. The contexts of the
// engine's calls are the same, and a store need not watch such a context.
type nearContext struct{ context.Context }

func (nearContext) Deadline() (time.Time, bool) { return time.Now().Add(time.Second / 2), true }

// redisArms are the bare commands and the store's steps over the same clients. The database
// of arms with new keys is emptied before each slice.
func redisArms(ctx context.Context, callers, size int, clients redisClients) ([]harness.Arm, error) {
	steady, emptied := clients.steady, clients.emptied
	flush := func() error { return emptied.FlushDB(ctx).Err() }
	value := make([]byte, size)
	rand.Read(value) // rand.Read never fails
	known := redisstore.DefaultPrefix + newClaim(newKey()).Key
	if err := steady.Set(ctx, known, value, time.Hour).Err(); err != nil {
		return nil, err
	}
	near := nearContext{ctx}
	growing := storeWork{ctx: near, store: redisstore.New(emptied), workers: callers}
	set := growing.claimsArm("SET PX", flush, func(c storage.Claim) error {
		return emptied.Set(ctx, redisstore.DefaultPrefix+c.Key, value, time.Hour).Err()
	})
	get := harness.Timed("GET", callers, func(int) error { return steady.Get(ctx, known).Err() })
	constant := storeWork{ctx: near, store: redisstore.New(steady), workers: callers}
	claim := newClaim(newKey())
	if err := constant.finish([]storage.Claim{claim}, newResult()); err != nil {
		return nil, err
	}
	return []harness.Arm{
		set, get, growing.acquireArm("acquire", flush), growing.settleArm("settle", flush),
		growing.firstArm(firstArmName, flush), constant.replayArm(replayArmName, always(claim)),
	}, nil
}

// redisRoundTrips counts the round trips of each kind of request. It has no noise.
func (s *suite) redisRoundTrips(ctx context.Context, section *report.Section) error {
	client := s.redisClient(0)
	defer client.Close()
	counter := &tripCounter{}
	client.AddHook(counter)
	counts, err := countTrips(ctx, redisstore.New(client), &counter.trips)
	if err != nil {
		return err
	}
	cached, err := countTrips(ctx, tieredstore.New(newMemory(), redisstore.New(client)), &counter.trips)
	if err != nil {
		return err
	}
	table := report.Table{Caption: "Round trips to Redis", Head: []string{"request", "redisstore", "memory before Redis"}}
	for _, kind := range requestKinds {
		table.Rows = append(table.Rows, []string{kind, fmt.Sprint(counts[kind]), fmt.Sprint(cached[kind])})
		s.results.figures[redisTrips(kind)] = float64(counts[kind])
	}
	section.Tables = append(section.Tables, table)
	return nil
}

func redisTrips(kind string) string { return "round trips to Redis, " + kind }

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
