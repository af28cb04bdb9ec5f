//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/redis/go-redis/v9"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/policy"
)

// The environment of a child: the server's program is this test's binary.
const (
	redisURL = "ONCEKEY_MCP_REDIS"  // set in a child only
	folder   = "ONCEKEY_MCP_FOLDER" // of the files that a test and its children share
	dieAt    = "ONCEKEY_MCP_DIE_AT" // the point at which the child kills itself, or ""
	stopAt   = "ONCEKEY_MCP_STOP_AT"
	refuses  = "ONCEKEY_MCP_REFUSES" // OnAbandoned is Refuse
)

// lockTTL is the lease of a call.
const lockTTL = 4 * time.Second

// longest is the time that a busy machine may need for one operation of a store.
const longest = 20 * time.Second

// steps are those of the tool.
var steps = []string{"reserve", "charge", "ship"}

// points are the places of the tool at which a child can die: before a step, inside of it
// after its effect, and after the last one.
func points() (all []string) {
	for _, step := range steps {
		all = append(all, "before "+step, "in "+step)
	}
	return append(all, "at the end")
}

type order struct {
	Item string `json:"item"`
	Key  string `json:"idempotency_key"`
}

type shipment struct {
	Receipts []string `json:"receipts"`
}

// serve is the program of a child: an MCP server over stdio, as a user would write it.
func serve(ctx context.Context) error {
	options, err := redis.ParseURL(os.Getenv(redisURL))
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	observer := core.WithObserver(event.Log(nil)) // to the standard error
	engine, err := core.New(redisstore.New(client), core.SharedScope, observer)
	if err != nil {
		return err
	}
	opts := []policy.Option{policy.LockTTL(lockTTL), policy.StoreTimeout(longest)}
	if os.Getenv(refuses) != "" {
		opts = append(opts, policy.OnAbandoned(policy.Refuse))
	}
	table, err := policy.NewTable(policy.Row("TOOL order", opts...))
	if err != nil {
		return err
	}
	guard, err := idemmcp.New(engine, table)
	if err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "order"}, handle)
	server.AddReceivingMiddleware(guard.Receive)
	err = server.Run(ctx, new(mcp.StdioTransport))
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(err, engine.Shutdown(ending))
}

func handle(ctx context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, shipment, error) {
	var done shipment
	for _, step := range steps {
		reach("before " + step)
		receipt, err := core.Step(ctx, step, func(context.Context) (string, error) {
			lease, _ := core.LeaseFrom(ctx)
			if err := record(step); err != nil {
				return "", err
			}
			reach("in " + step)
			return fmt.Sprintf("%s of %s by attempt %d", step, in.Item, lease.Attempt), nil
		})
		if err != nil {
			return nil, shipment{}, err
		}
		done.Receipts = append(done.Receipts, receipt)
	}
	reach("at the end")
	return nil, done, nil
}

// reach dies, or waits for its end, at the point of this child.
func reach(point string) {
	switch point {
	case os.Getenv(dieAt):
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	case os.Getenv(stopAt):
		_ = record("waits")
		for !exists("go on") {
			<-time.After(5 * time.Millisecond)
		}
	}
}

// record appends the name of an effect to the file that all children share.
func record(effect string) error {
	file, err := os.OpenFile(filepath.Join(os.Getenv(folder), "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(effect + "\n")
	return errors.Join(err, file.Close())
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(os.Getenv(folder), name))
	return err == nil
}
