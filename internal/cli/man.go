package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ManName returns the name of a command's manual page, such as assay-score-pair.
func ManName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// WriteMan writes a command's manual page for section 1, in the format man(7). Its content is that of the help.
func WriteMan(w io.Writer, c *cobra.Command, date time.Time) error {
	c.InitDefaultHelpFlag()
	name := ManName(c)
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 %q %q Assay\n.nh\n.ad l\n", strings.ToUpper(name), date.UTC().Format(time.DateOnly),
		"assay "+Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.nf\n", roff(name), roff(c.Short))
	if c.Runnable() && !isGroup(c) {
		fmt.Fprintln(&b, roff(c.UseLine()))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintln(&b, roff(c.CommandPath()+" [command]"))
	}
	fmt.Fprintf(&b, ".fi\n.SH DESCRIPTION\n%s", paragraphs(c.Long, c.Short))
	if c.HasExample() {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	var also []string
	if c.HasParent() {
		also = append(also, ManName(c.Parent()))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range c.Commands() {
			if HasMan(sub) {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.Name()), roff(sub.Short))
				also = append(also, ManName(sub))
			}
		}
	}
	for _, s := range sections(c) {
		heading := strings.ToUpper(s.heading)
		if s.heading == "Flags" {
			heading = "OPTIONS"
		}
		fmt.Fprintf(&b, ".SH %q\n%s", roff(heading), options(s.flags))
	}
	if len(also) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for i, page := range also {
			comma := ","
			if i == len(also)-1 {
				comma = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(page), comma)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// HasMan reports whether a command has a manual page: every command that the help lists has one, except help itself.
func HasMan(c *cobra.Command) bool { return c.IsAvailableCommand() && c.Name() != "help" }

// options lists flags with their help texts.
func options(flags []*pflag.Flag) string {
	var b strings.Builder
	for _, f := range flags {
		line := strings.TrimSpace(shown([]*pflag.Flag{f}).FlagUsages())
		names, text, _ := strings.Cut(line, "   ")
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(names), roff(strings.Join(strings.Fields(text), " ")))
	}
	return b.String()
}

// paragraphs formats the first text that is not empty. Empty lines separate its paragraphs.
func paragraphs(texts ...string) string {
	i := slices.IndexFunc(texts, func(text string) bool { return text != "" })
	if i < 0 {
		return ""
	}
	var b strings.Builder
	for p := range strings.SplitSeq(strings.TrimSpace(texts[i]), "\n\n") {
		fmt.Fprintf(&b, ".PP\n%s\n", roff(p))
	}
	return b.String()
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'", `"`, `\(dq`, "^", `\(ha`,
	"~", `\(ti`, "`", `\(ga`)

// roff escapes text, which may have several lines.
func roff(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
