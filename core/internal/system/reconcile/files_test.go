//go:build unix

package reconcile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// write appends a line to a file that all processes share.
func (p *part) write(name, line string) error {
	file, err := os.OpenFile(filepath.Join(p.Folder, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line + "\n")
	return errors.Join(err, file.Close())
}

// read returns the lines of a file. One that does not exist has none.
func (p *part) read(name string) []string {
	text, err := os.ReadFile(filepath.Join(p.Folder, name))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" })
}

// contains reports whether a line begins so.
func contains(lines []string, beginning string) bool {
	return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, beginning) })
}
