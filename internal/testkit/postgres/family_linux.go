package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// children lists the processes whose parent is pid.
func children(pid int) ([]int, error) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, entry := range entries {
		child, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		state, parent, err := statusOf(child)
		if errors.Is(err, os.ErrNotExist) || state == "Z" {
			continue // the process has ended
		}
		if err == nil && parent == pid {
			found = append(found, child)
		}
	}
	return found, nil
}

// isAlive reports whether the process runs. A zombie does not.
func isAlive(pid int) bool {
	state, _, err := statusOf(pid)
	return err == nil && state != "Z"
}

func statusOf(pid int) (state string, parent int, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	// Format: pid (name) state parent ... The name may contain any character.
	text := string(content)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const enough = 2
	if len(fields) < enough {
		return "", 0, fmt.Errorf("/proc/%d/stat cannot be read: %q", pid, text)
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err
}
