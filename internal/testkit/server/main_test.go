package serverproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roleVariable makes this test binary act as the program that the tests start, so that no other program is needed.
const roleVariable = "ONCEKEY_SERVERPROC_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// program is a command that plays one of the roles in play.
func program(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), executable)
	command.Env = append(os.Environ(), roleVariable+"="+role)
	return command
}

func play(role string) int {
	switch role {
	case "server": // runs until a signal ends it
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		fmt.Println("listening on 127.0.0.1:4711")
		<-ended
		fmt.Println("goodbye")
		return 0
	case "crasher": // ends by itself
		fmt.Fprintln(os.Stderr, "no disk left")
		return 3
	case "worker": // works, has a child that works and ends, and one that works and stays
		work()
		if err := employ(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case "child": // works, and ends with its input
		work()
		fmt.Println("worked")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "orphaning": // starts a server and waits to be killed
		keepServer()
		return 0
	default:
		return 64
	}
}

// workTime is the processor time that each process of the role worker uses, at least.
const workTime = 200 * time.Millisecond

func work() {
	for timeOf("self") < workTime {
		continue
	}
}

// employ waits for the end of one child, and never returns while the other one runs.
func employ() error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	for _, end := range []bool{true, false} {
		child := exec.CommandContext(context.Background(), executable)
		child.Env = append(os.Environ(), roleVariable+"=child")
		input, inputErr := child.StdinPipe()
		output, outputErr := child.StdoutPipe()
		if err := errors.Join(inputErr, outputErr, child.Start()); err != nil {
			return err
		}
		if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
			return err
		}
		if end {
			err = input.Close()
		} else {
			fmt.Println("done")
		}
		if err := errors.Join(err, child.Wait()); err != nil {
			return err
		}
	}
	return nil
}

// keepServer starts a server, prints its process number, and never returns.
func keepServer() {
	executable, err := os.Executable()
	if err != nil {
		panic(err)
	}
	command := exec.CommandContext(context.Background(), executable)
	command.Env = append(os.Environ(), roleVariable+"=server")
	process := Start(&Lasting{}, "server", command)
	fmt.Println("started", process.Pid())
	select {}
}

// verdictTest records how a test was ended.
type verdictTest struct {
	testing.TB
	verdict, message string
}

func (v *verdictTest) Helper() {}

func (v *verdictTest) Skip(arguments ...any) {
	v.verdict, v.message = "skipped", fmt.Sprint(arguments...)
	runtime.Goexit()
}

func (v *verdictTest) Fatal(arguments ...any) {
	v.verdict, v.message = "failed", fmt.Sprint(arguments...)
	runtime.Goexit()
}

func (v *verdictTest) Fatalf(format string, arguments ...any) {
	v.Fatal(fmt.Sprintf(format, arguments...))
}

// judge runs body like a test, on a goroutine that body may end, and returns the verdict.
func judge(t *testing.T, body func(testing.TB)) *verdictTest {
	t.Helper()
	verdict := &verdictTest{TB: t, verdict: "passed"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		body(verdict)
	}()
	<-done
	return verdict
}
