package shop

import (
	"encoding/json"
	"fmt"
	"os"
)

// Journal is the -ledger FILE of this process, with one line per entry.
type Journal struct{ file *os.File } // nil without -ledger

// OpenJournal opens the file, or none if the path is empty.
func OpenJournal(path string) (*Journal, error) {
	if path == "" {
		return &Journal{}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the operator names the file
	return &Journal{file}, err
}

// Close closes the file.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// append writes one line with one call, so that processes can share the file.
func (j *Journal) append(b Book, e Entry) error {
	if j.file == nil {
		return nil
	}
	line, err := json.Marshal(struct {
		Kind Book `json:"kind"`
		PID  int  `json:"pid"`
		Entry
	}{b, os.Getpid(), e})
	if err != nil {
		return err
	}
	if _, err = j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}
