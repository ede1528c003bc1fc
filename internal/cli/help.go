package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/exit"
)

// helpColumns is the width of help texts.
const helpColumns = 120

// part annotates a flag with its section of the help.
const part = "part"

// Part lists flags of c in a section of the help.
func Part(c *cobra.Command, heading string, flags ...string) { annotate(c, flags, part, heading) }

// needs annotates a flag with the flags of which it requires one.
const needs = "needs"

// Needs declares that flags of c require another flag, or one of several ("scorer|judge"). Without it they are
// refused rather than ignored.
func Needs(c *cobra.Command, other string, flags ...string) {
	annotate(c, flags, needs, strings.Split(other, "|")...)
}

// checkNeeds refuses a flag if none of the flags that it requires is given.
func checkNeeds(c *cobra.Command, f *pflag.Flag) error {
	others := f.Annotations[needs]
	if len(others) == 0 || slices.ContainsFunc(others, c.Flags().Changed) {
		return nil
	}
	return exit.Usagef("--%s requires --%s", f.Name, strings.Join(others, " or --"))
}

// annotate annotates flags of c.
func annotate(c *cobra.Command, flags []string, name string, values ...string) {
	for _, flag := range flags {
		f := c.Flags().Lookup(flag)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[name] = values
	}
}

// usage prints the part of the help below a command's description.
func usage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() && !isGroup(c) {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\nAvailable Commands:\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	for _, s := range sections(c) {
		fmt.Fprintf(&b, "\n%s:\n%s", s.heading, flagLines(s.flags))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStdout(), b.String())
	return err
}

// section is a heading of flags.
type section struct {
	heading string
	flags   []*pflag.Flag
}

// sections returns the sections of a command's flags: its own, then parts in order of their first flag, then global
// flags.
func sections(c *cobra.Command) []section {
	list := []section{{heading: "Flags"}}
	at := map[string]int{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		i := 0
		if heading := f.Annotations[part]; len(heading) == 1 {
			if _, known := at[heading[0]]; !known {
				at[heading[0]] = len(list)
				list = append(list, section{heading: heading[0]})
			}
			i = at[heading[0]]
		}
		list[i].add(f)
	})
	global := section{heading: "Global Flags"}
	c.InheritedFlags().VisitAll(global.add)
	var filled []section
	for _, s := range append(list, global) {
		if len(s.flags) > 0 {
			filled = append(filled, s)
		}
	}
	return filled
}

func (s *section) add(f *pflag.Flag) {
	if !f.Hidden && f.Deprecated == "" {
		s.flags = append(s.flags, f)
	}
}

// plainTypes has placeholders for value types, for which pflag uses Go's names.
var plainTypes = map[string]string{"stringToString": "NAME=VALUE,...", "strings": "A,B,...", "ints": "N,N,...",
	"int64Slice": "N,N,...", "float64Slice": "X,X,...", "int": "N", "uint": "N", "float": "X", "duration": "TIME",
	"bytes": "BYTES", "grid": "RxC,..."}

// flagLines lists flags, wrapped to helpColumns.
func flagLines(flags []*pflag.Flag) string { return shown(flags).FlagUsagesWrapped(helpColumns) }

// shown returns flags as the help shows them: with our placeholders, and without empty lists as defaults.
func shown(flags []*pflag.Flag) *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, f := range flags {
		shown := *f
		name, _ := pflag.UnquoteUsage(f)
		plain, ok := plainTypes[name]
		if name == "string" || name == "stringArray" {
			plain, ok = placeholder(f), true
		}
		if ok {
			name = plain
			shown.Value = typed{f.Value, name}
		}
		if f.DefValue == "[]" {
			shown.Value, shown.DefValue = typed{f.Value, name}, ""
		}
		set.AddFlag(&shown)
	}
	return set
}

// typed is a value with another type name.
type typed struct {
	pflag.Value
	name string
}

// Type returns the name.
func (t typed) Type() string { return t.name }

// helpCommand is cobra's help command, except that an unknown topic is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Show the help of a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Parent().Find(args)
			if err == nil && len(rest) > 0 {
				err = unknownCommand(about, rest[0])
			}
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

func unknownCommand(c *cobra.Command, name string) error {
	err := fmt.Errorf("unknown command %q for %q", name, c.CommandPath())
	c.SuggestionsMinimumDistance = 2
	if like := c.SuggestionsFor(name); len(like) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(like, " or "))
	}
	return err
}

const group = "group"

// isGroup reports whether a command only has subcommands.
func isGroup(c *cobra.Command) bool { return c.Annotations[group] != "" }

// makeGroup makes a command that only has subcommands print its help and refuse unknown subcommands.
func makeGroup(c *cobra.Command) {
	c.Annotations = map[string]string{group: "true"}
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return unknownCommand(c, args[0])
		case JSON(c):
			return errors.New("a subcommand is needed")
		}
		return c.Help()
	}
}

// asksJSON reports whether a command line has --json. It looks at the arguments, since errors of other flags are
// reported before all are parsed.
func asksJSON(args []string) (asked bool) {
	for _, a := range args {
		if a == "--" {
			break
		}
		if name, value, given := strings.Cut(a, "="); name == "--json" {
			on, err := strconv.ParseBool(value)
			asked = !given || err != nil || on
		}
	}
	return asked
}

// placeholders are the placeholders of text flags in the help, by the flag's name. A command overrides one with
// backquotes in the flag's usage. The default is TEXT.
var placeholders = func() map[string]string {
	of := map[string]string{"device": "DEVICE", "dimension": "NAME", "judge": "JUDGE", "model": "NAME", "url": "URL",
		"addr": "HOST:PORT", "key-variable": "NAME", "shard": "I/N", "split": "NAME", "by": "NAME"}
	for value, names := range map[string][]string{
		"DIR": {"scorer", "backbone", "adapter", "chat-backbone", "chat-adapter", "prompts", "store", "cache", "folder",
			"base", "photos", "candidates", "encoder", "clip", "dino"},
		"FILE": {"in", "config", "server", "clients", "cert", "key", "token-file", "test", "test-labels", "labels",
			"before", "after", "sizes", "inputs", "cotangents", "lin", "weights"},
		"PICTURE": {"source", "edit", "reference", "image"},
		"WORD":    {"dtype", "average", "method", "kind", "family", "fusion", "alpha", "scales", "preset", "pictures"},
	} {
		for _, name := range names {
			of[name] = value
		}
	}
	return of
}()

// placeholder returns the placeholder of a text flag.
func placeholder(f *pflag.Flag) string {
	if _, ok := f.Annotations[writes]; ok {
		return "FILE"
	}
	if _, ok := f.Annotations[makes]; ok || f.Name == "out" {
		return "DIR"
	}
	if word, ok := placeholders[f.Name]; ok {
		return word
	}
	return "TEXT"
}
