// Package command runs other programs.
package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Output runs a program in a folder, with variables beside those of this process, and returns its standard output without the
// last line's end. The error has all that the program has printed.
func Output(ctx context.Context, folder string, environment []string, program string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), environment...)
	var said bytes.Buffer
	command.Stderr = &said
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(append([]string{program}, arguments...), " "), err, text, said.Bytes())
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}
