// Command otherday runs a command, such as go test, in which every Go program that is built begins on another day:
//
//	otherday -dir build/otherday 2028-02-29T23:55:00Z go test ./...
//
// It builds package time anew, with a Now that adds the difference. The bubbles of testing/synctest keep their own clock, and
// the monotonic clock stays as it is. On Linux, clock/clock.c does the same for other programs, such as database servers.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// variable has the seconds that Now adds.
const variable = "ONCEKEY_CLOCK_SHIFT"

func main() {
	folder := flag.String("dir", "", "folder for the changed file of package time")
	flag.Parse()
	if err := run(*folder, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "otherday:", err)
		os.Exit(1)
	}
}

func run(folder string, args []string) error {
	if len(args) < 2 {
		return errors.New("want a time such as 2028-02-29T23:55:00Z and a command")
	}
	day, err := time.Parse(time.RFC3339, args[0])
	if err != nil {
		return err
	}
	outer, _ := strconv.ParseInt(os.Getenv(variable), 10, 64) // this program may begin on another day itself
	shift := int64(time.Until(day).Seconds())
	if shift < 0 {
		return fmt.Errorf("%s is in the past", args[0])
	}
	shift += outer
	ctx := context.Background()
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	if strings.ContainsAny(folder, " :") {
		return fmt.Errorf("the folder %s has a space or a colon, which LD_PRELOAD does not allow", folder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { // PostgreSQL's server runs as another user, and loads the clock from here
		return err
	}
	goroot, err := linkGoroot(ctx, folder)
	if err != nil {
		return err
	}
	overlay, err := writeOverlay(folder, filepath.Join(goroot, "src", "time", "time.go"))
	if err != nil {
		return err
	}
	ownGo := []string{"GOROOT=" + goroot, "GOTOOLCHAIN=local", "PATH=" + filepath.Join(goroot, "bin") + string(os.PathListSeparator) + os.Getenv("PATH")}
	command := exec.CommandContext(ctx, args[1], args[2:]...)
	command.Env = append(append(os.Environ(), ownGo...), variable+"="+strconv.FormatInt(shift, 10), strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	if runtime.GOOS == "linux" {
		library, err := compileClock(ctx, folder)
		if err != nil {
			return err
		}
		command.Env = append(command.Env, "LD_PRELOAD="+library)
	}
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}

// linkGoroot returns the path of a link to the installation of Go. An overlay may not replace files of the module cache, where
// an installation is that go has fetched by itself.
func linkGoroot(ctx context.Context, folder string) (link string, err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	link = filepath.Join(folder, "goroot")
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return link, os.Symlink(strings.TrimSpace(string(root)), link)
}

// writeOverlay returns the path of a file for go's flag -overlay.
func writeOverlay(folder, original string) (overlay string, err error) {
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	changed, err := shifted(string(source))
	if err != nil {
		return "", fmt.Errorf("%s: %w", original, err)
	}
	replacement := filepath.Join(folder, "time.go.txt") // no package of the project
	table, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, errors.Join(os.WriteFile(replacement, []byte(changed), 0o600), os.WriteFile(overlay, table, 0o600))
}

// shifted is the source of package time with a Now that adds the variable's seconds.
func shifted(source string) (string, error) {
	const imports, now = "import (\n", "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(source, imports) != 1 || strings.Count(source, now) != 1 {
		return "", errors.New("this version of Go has another Now, which otherday does not know")
	}
	source = strings.Replace(source, imports, imports+"\t\"syscall\"\n", 1)
	source = strings.Replace(source, now, now+"\tif !runtimeIsBubbled() {\n\t\tsec += clockShift\n\t}\n", 1)
	return source + `
var clockShift = func() (seconds int64) {
	text, _ := syscall.Getenv("` + variable + `")
	for _, digit := range []byte(text) {
		seconds = 10*seconds + int64(digit-'0')
	}
	return seconds
}()
`, nil
}

//go:embed clock/clock.c
var clock []byte

// compileClock returns the path of a library for LD_PRELOAD.
func compileClock(ctx context.Context, folder string) (library string, err error) {
	source := filepath.Join(folder, "clock.c")
	if err := os.WriteFile(source, clock, 0o600); err != nil {
		return "", err
	}
	library = filepath.Join(folder, "clock.so")
	if output, err := exec.CommandContext(ctx, "cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		return "", fmt.Errorf("cc: %w: %s", err, output)
	}
	return library, nil
}
