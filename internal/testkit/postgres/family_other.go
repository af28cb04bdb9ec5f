//go:build !linux

package postgrestest

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// children lists the processes whose parent is pid.
func children(pid int) ([]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolDeadline)
	defer cancel()
	output, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, err
	}
	var found []int
	for line := range strings.Lines(string(output)) {
		numbers := strings.Fields(line)
		if len(numbers) != 2 || numbers[1] != strconv.Itoa(pid) { //nolint:mnd // a process and its parent
			continue
		}
		if child, err := strconv.Atoi(numbers[0]); err == nil {
			found = append(found, child)
		}
	}
	return found, nil
}

func isAlive(pid int) bool { return signal(pid, syscall.Signal(0)) == nil }
