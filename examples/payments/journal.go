package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// journal is the -ledger FILE of this process, with one line per entry.
type journal struct{ file *os.File } // nil without -ledger

func openJournal(path string) (*journal, error) {
	if path == "" {
		return &journal{}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the operator names the file
	return &journal{file}, err
}

func (j *journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// append writes one line with one call, so that processes can share the file.
func (j *journal) append(b book, e entry) error {
	if j.file == nil {
		return nil
	}
	line, err := json.Marshal(struct {
		Kind book `json:"kind"`
		PID  int  `json:"pid"`
		entry
	}{b, os.Getpid(), e})
	if err != nil {
		return err
	}
	if _, err = j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}
