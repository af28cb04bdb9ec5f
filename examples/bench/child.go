package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncekey/oncekey/examples/bench/internal/load"
	"github.com/oncekey/oncekey/examples/bench/internal/servers"
)

// childVariable makes this program serve the payments of one arm of the open loop, instead
// of the benchmark: a service of its own shares no collector and no scheduler with its
// client.
const childVariable = "ONCEKEY_BENCH_SERVE"

// usage is what a child has used since it started.
type usage struct {
	CPU           time.Duration
	Bytes, Allocs uint64
	Collections   uint32
}

// serveAsChild serves if this process is a child. It reports the address, then its usage for
// each line that it reads, and ends with its standard input.
func serveAsChild(ctx context.Context) (isChild bool, err error) {
	name, isChild := os.LookupEnv(childVariable)
	if !isChild {
		return false, nil
	}
	services := openServices()
	i := slices.IndexFunc(services, func(v service) bool { return v.name == name })
	if i < 0 {
		return true, fmt.Errorf("no service is called %q", name)
	}
	server, err := serve(ctx, nil)
	if err != nil {
		return true, err
	}
	defer server.stop()
	if err := services[i].renew(ctx, server); err != nil {
		return true, err
	}
	fmt.Println(server.address)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := json.NewEncoder(os.Stdout).Encode(used()); err != nil {
			return true, err
		}
	}
	return true, nil
}

// used is the usage of this process.
func used() (u usage) {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.Bytes, u.Allocs, u.Collections = memory.TotalAlloc, memory.Mallocs, memory.NumGC
	u.CPU = servers.Running("self")
	return u
}

// child is a service in a process of its own.
type child struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	pacer   *load.Pacer
}

// startChild starts a service on these processors, which its GOMAXPROCS follows, and
// connects a client.
func startChild(ctx context.Context, name string, on *unix.CPUSet) (c *child, err error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c = &child{command: exec.CommandContext(ctx, executable)} //nolint:gosec // this program
	c.command.Env = append(os.Environ(), childVariable+"="+name)
	c.command.Stderr = os.Stderr
	if c.stdin, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdout = bufio.NewReader(stdout)
	if on != nil { // a process begins on its parent's processors
		back, err := load.Pin(on)
		if err != nil {
			return nil, err
		}
		defer back()
	}
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	address, err := c.stdout.ReadString('\n')
	if err == nil {
		c.pacer, err = load.DialPaced(strings.TrimSpace(address), openConnections, payload)
	}
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// usage asks the child for its usage.
func (c *child) usage() (u usage, err error) {
	if _, err = c.stdin.Write([]byte("\n")); err != nil {
		return u, err
	}
	line, err := c.stdout.ReadBytes('\n')
	if err != nil {
		return u, err
	}
	err = json.Unmarshal(line, &u)
	return u, err
}

// stop ends the child.
func (c *child) stop() {
	if c.pacer != nil {
		c.pacer.Close()
	}
	c.stdin.Close()
	_ = c.command.Wait() // its error is on standard error
}
