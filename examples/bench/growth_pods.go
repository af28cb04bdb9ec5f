package main

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// podCallers is the number of callers that the pods share, each with its part of the
// connections.
const podCallers = 64

var podCounts = []int{1, 2, 4, 8}

// pods are stores with connections of their own, each for a part of the keys, as if pods of
// one service got the requests.
type pods struct {
	storage.Store // of the first pod
	all           []storage.Store
}

func (p pods) of(key string) storage.Store {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(key)) // a hash never fails
	return p.all[sum.Sum32()%uint32(len(p.all))]
}

// Acquire implements storage.Store.
func (p pods) Acquire(ctx context.Context, r storage.Request) (storage.Lease, *storage.Record, error) {
	return p.of(r.Claim().Key).Acquire(ctx, r)
}

// Complete implements storage.Store.
func (p pods) Complete(ctx context.Context, l storage.Lease, result storage.Result) error {
	return p.of(l.Key).Complete(ctx, l, result)
}

// measurePods compares numbers of pods at one server.
func (s *suite) measurePods(ctx context.Context, section *report.Section) error {
	table := report.Table{
		Caption: fmt.Sprintf("Pods: %d callers, and in PostgreSQL %d connections, shared by 1, 2, 4 and 8 stores of one process; requests a second, and p99", podCallers, postgresPool),
		Head:    []string{"store"},
	}
	for _, count := range podCounts {
		table.Head = append(table.Head, fmt.Sprintf("pods: %d", count))
	}
	table.Head = append(table.Head, "time of most pods x one")
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	onRedis := func(int) (storage.Store, error) {
		client := s.redisClient(0)
		ends = append(ends, func() { client.Close() })
		return redisstore.New(client), nil
	}
	onPostgres := func(connections int) (storage.Store, error) {
		pool, err := s.pool(ctx, connections, nil)
		if err != nil {
			return nil, err
		}
		ends = append(ends, pool.Close)
		if err := pgstore.Migrate(ctx, pool); err != nil {
			return nil, err
		}
		return pgstore.New(pool), nil
	}
	for _, on := range []struct {
		name      string
		installed bool
		open      func(connections int) (storage.Store, error)
	}{{"redisstore", s.redis != nil, onRedis}, {"pgstore", s.postgres != nil, onPostgres}} {
		if !on.installed {
			continue
		}
		rows, err := s.comparePods(ctx, on.name, on.open)
		if err != nil {
			return fmt.Errorf("pods of %s: %w", on.name, err)
		}
		table.Rows = append(table.Rows, rows...)
	}
	section.Tables = append(section.Tables, table)
	return nil
}

func (s *suite) comparePods(ctx context.Context, name string, open func(connections int) (storage.Store, error)) (rows [][]string, err error) {
	known := newClaims(knownRecords)
	var arms []harness.Arm
	armName := func(count int, kind string) string { return fmt.Sprintf("%d pods: %s", count, kind) }
	for _, count := range podCounts {
		all := make([]storage.Store, count)
		for i := range all {
			if all[i], err = open(postgresPool / count); err != nil {
				return nil, err
			}
		}
		work := storeWork{ctx: ctx, store: pods{all[0], all}, workers: podCallers}
		if count == 1 {
			if err := work.finish(known, newResult()); err != nil {
				return nil, err
			}
		}
		arms = append(arms, work.firstArm(armName(count, "first"), nil),
			work.replayArm(armName(count, "replay"), func(i int) storage.Claim { return known[i%len(known)] }))
	}
	plan := s.plan(0)
	plan.Slice *= 4 // several turns for each caller
	c, err := harness.Compare(ctx, plan, arms)
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"first", "replay"} {
		row := []string{name + ", " + kind}
		for _, count := range podCounts {
			cost := c.Median(armName(count, kind))
			row = append(row, fmt.Sprintf("%.0f, %s", 1e9/cost.Time, report.Duration(cost.P99)))
		}
		most := podCounts[len(podCounts)-1]
		rows = append(rows, append(row, report.Interval(c.Ratio(armName(most, kind), armName(1, kind)))))
	}
	return rows, nil
}
