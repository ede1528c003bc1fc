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
)

// helpColumns is the width of help texts.
const helpColumns = 120

// part is the annotation of a flag that names the part of the help where it is listed.
const part = "part"

// Part lists flags under a heading of their own in the help of c, as those that go with another flag.
func Part(c *cobra.Command, heading string, flags ...string) {
	for _, name := range flags {
		annotate(c.Flags().Lookup(name), part, heading)
	}
}

// needs is the annotation of a flag that names the flags of which one must be given, too.
const needs = "needs"

// Needs says that flags of c mean nothing without another flag, or without one of several ("scorer|judge"): given
// alone they are refused, rather than passed over.
func Needs(c *cobra.Command, other string, flags ...string) {
	for _, name := range flags {
		annotate(c.Flags().Lookup(name), needs, strings.Split(other, "|")...)
	}
}

// checkNeeds refuses flags that stand without those that they need.
func checkNeeds(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		others := f.Annotations[needs]
		if err == nil && len(others) > 0 && !slices.ContainsFunc(others, c.Flags().Changed) {
			err = Usagef("--%s goes with --%s, and means nothing without", f.Name, strings.Join(others, " or --"))
		}
	})
	return err
}

func annotate(f *pflag.Flag, name string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[name] = values
}

// usage is what --help prints below the text of a command.
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

// sections are a command's flags: its own first, then parts by their first flag, then those of all commands.
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

// plainTypes are words for types of values that pflag names as Go does.
var plainTypes = map[string]string{"stringToString": "NAME=VALUE,...", "strings": "A,B,...", "ints": "N,N,...",
	"int64Slice": "N,N,...", "float64Slice": "X,X,...", "int": "N", "uint": "N", "float": "X", "duration": "TIME",
	"bytes": "BYTES", "grid": "RxC,..."}

// flagLines lists flags, wrapped to helpColumns. Empty lists are no default.
func flagLines(flags []*pflag.Flag) string {
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
	return set.FlagUsagesWrapped(helpColumns)
}

// typed is a value whose type has another name.
type typed struct {
	pflag.Value
	name string
}

// Type is the name.
func (t typed) Type() string { return t.name }

// helpCommand is cobra's command help, but that a topic which does not exist is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Show the help of a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
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

// isGroup reports whether a command has subcommands alone, and does nothing by itself.
func isGroup(c *cobra.Command) bool { return c.Annotations[group] != "" }

// makeGroup lets a command that only has subcommands show its help, and refuse subcommands that do not exist.
func makeGroup(c *cobra.Command) {
	c.Annotations = map[string]string{group: "true"}
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return unknownCommand(c, args[0])
		case JSON(c):
			return errors.New("a subcommand is wanted")
		}
		return c.Help()
	}
}

// asksJSON reports whether a command line asks for JSON. It looks for the flag itself: errors of other flags are told
// before all are read.
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
