// Package cli is shared by the commands train, score, label and assay: subcommands, signals, flags, help, JSON output
// and progress.
//
// An [App] runs a command line: it checks the flags that a command annotated ([Needs], [Writes], [Makes],
// [TakesStorage], [TakesText]), runs the command, and turns its error into an exit code. Results go to stdout with
// [Print], as text or as JSON; progress and warnings go to stderr.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/exit"
	"assay/internal/signals"
	"assay/internal/version"
)

// Version is the version of the commands.
const Version = version.Version

// App is one command: a root, and the subcommands that register themselves from init functions.
type App struct {
	Root     func() *cobra.Command
	End      func(code int) // called before the process exits with that code, if set
	commands []func() *cobra.Command
	setups   []func(*cobra.Command)
}

// Register adds a subcommand.
func (a *App) Register(command func() *cobra.Command) { a.commands = append(a.commands, command) }

// Configure lets another file change the root, for example to give it flags and RunE.
func (a *App) Configure(setup func(root *cobra.Command)) { a.setups = append(a.setups, setup) }

// Main runs the command line of the process and exits. The first interrupt or SIGTERM cancels the context of the
// command, which then saves its state; the second one kills the process.
func (a *App) Main() {
	code := a.Run(signals.Context(), os.Args[1:], os.Stdout, os.Stderr)
	if a.End != nil {
		a.End(code)
	}
	os.Exit(code)
}

// Run runs one command line and returns its exit code. Tests call it in-process.
func (a *App) Run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	asJSON := asksJSON(args)
	out, told := &output{to: stdout, exact: asJSON}, &output{to: stderr}
	defer func() {
		if p := recover(); p != nil {
			report(fmt.Errorf("internal error, please report it: %v\n%s", p, debug.Stack()), asJSON, out, told)
			code = exit.Failed
		}
	}()
	running := false
	root := a.root(&running)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(told)
	ended, err := root.ExecuteContextC(ctx)
	if err != nil && !running { // cobra's own: flags, arguments, subcommand
		if ended.Name() == "help" {
			ended = root
		} else {
			err = mistaken(ended, args, err)
		}
		err = exit.Usage(fmt.Errorf("%w (see %s --help)", err, ended.CommandPath()))
	}
	if lost := out.failed(); lost != nil {
		asJSON = false
		if !errors.Is(err, lost) {
			err = errors.Join(err, fmt.Errorf("the result could not be printed: %w", lost))
		}
	}
	report(err, asJSON, out, told)
	return exit.Code(err)
}

// mistaken names the cause of cobra's error about a command, if it finds one: a subcommand that does not exist, whose
// flags cobra does not know, or a configuration without its flag.
func mistaken(c *cobra.Command, args []string, err error) error {
	at := slices.Index(args, c.Name()) + 1 // 0 for the root
	if at >= len(args) || strings.HasPrefix(args[at], "-") {
		return err
	}
	name := args[at]
	switch ext := filepath.Ext(name); {
	case (ext == ".yaml" || ext == ".yml") && c.Flags().Lookup("config") != nil:
		return fmt.Errorf("%w: pass a configuration as --config %s", err, name)
	case isGroup(c):
		return unknownCommand(c, name)
	}
	return err
}

// root builds the command tree. running is set when a command starts its work: errors before that are cobra's.
func (a *App) root(running *bool) *cobra.Command {
	root := a.Tree()
	watch(root, running)
	return root
}

// Tree returns the command line as cobra knows it, for completion and manual pages. [App.Run] checks more.
func (a *App) Tree() *cobra.Command {
	root := a.Command()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.SetUsageFunc(usage)
	root.PersistentFlags().Bool("json", false, "print results and errors as JSON on stdout")
	return root
}

// Nested returns the command line as a subcommand of another App, to be registered there.
func (a *App) Nested() *cobra.Command {
	c := a.Command()
	c.AddCommand(helpCommand())
	return c
}

// Command returns the root with its subcommands.
func (a *App) Command() *cobra.Command {
	root := a.Root()
	root.Version = Version
	for _, setup := range a.setups {
		setup(root)
	}
	for _, c := range a.commands {
		root.AddCommand(c())
	}
	return root
}

func watch(c *cobra.Command, running *bool) {
	setOnce(c)
	fetchBefore(c)
	if !c.Runnable() && c.HasSubCommands() {
		makeGroup(c)
	} else if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*running = true
			if err := checkFlags(c, args); err != nil {
				return err
			}
			return run(c, args)
		}
	}
	if c.Args == nil && c.HasParent() {
		c.Args = cobra.NoArgs
	}
	for _, sub := range c.Commands() {
		if sub.Name() != "help" { // does no work
			watch(sub, running)
		}
	}
}

// checkFlags checks the given flags against their annotations.
func checkFlags(c *cobra.Command, args []string) (err error) {
	each := func(check func(*cobra.Command, *pflag.Flag) error) {
		c.Flags().Visit(func(f *pflag.Flag) {
			if err == nil {
				err = check(c, f)
			}
		})
	}
	each(checkNeeds)
	err = cmp.Or(err, checkArguments(c, args))
	each(checkStorage)
	each(checkMakes)
	each(checkWrites)
	return err
}

// JSON reports whether --json was given.
func JSON(c *cobra.Command) bool {
	v, err := c.Flags().GetBool("json")
	return err == nil && v
}

// Print writes a result to stdout: v as one JSON document with --json, otherwise the text that words writes.
func Print(c *cobra.Command, v any, words func(w io.Writer)) error {
	if !JSON(c) {
		words(c.OutOrStdout())
		return nil
	}
	return encode(c.OutOrStdout(), v)
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// report prints an error, unless it was printed already.
func report(err error, asJSON bool, stdout, stderr io.Writer) {
	switch {
	case err == nil || exit.IsElsewhere(err):
	case !asJSON:
		fmt.Fprintln(stderr, "error:", err)
	case !exit.IsReported(err):
		v := struct {
			Error    string   `json:"error"`
			Problems []string `json:"problems,omitempty"`
		}{err.Error(), exit.Problems(err)}
		if e := encode(stdout, v); e != nil {
			fmt.Fprintln(stderr, "error:", err, e)
		}
	}
}
