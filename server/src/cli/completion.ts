/** `sluice completion SHELL`: a script for the shell, made of the table of commands. It asks no service. */
import { UsageError } from '../errors.ts'
import type { Command } from './usage.ts'

const SHELLS: Record<string, (commands: readonly Command[]) => string> = { bash, zsh, fish }

export async function printCompletion(shell: string, commands: readonly Command[]): Promise<number> {
  if (!Object.hasOwn(SHELLS, shell))
    throw new UsageError(`There is no completion for '${shell}'; there is ${Object.keys(SHELLS).join(', ')}.`)
  console.log(SHELLS[shell]!(commands))
  return 0
}

const first = ({ name }: Command): string => name.split(' ')[0]!
const second = ({ name }: Command): string | undefined => name.split(' ')[1]

const optionsOf = ({ flags = [], options = {}, aliases = {} }: Command): string[] => [
  ...flags,
  ...Object.keys(options),
  ...Object.keys(aliases),
  '--help',
]

/** First words, each with what it says: a command's line, or the commands of its family. */
function firstWords(commands: readonly Command[]): [word: string, about: string][] {
  const words = new Map<string, string>()
  for (const command of commands) {
    const family = commands.filter((each) => first(each) === first(command) && second(each) !== undefined)
    words.set(first(command), family.length > 0 ? family.map(second).join(', ') : command.about)
  }
  return [...words]
}

const families = (commands: readonly Command[]): [word: string, members: Command[]][] =>
  firstWords(commands)
    .map(([word]): [string, Command[]] => [
      word,
      commands.filter((each) => first(each) === word && second(each) !== undefined),
    ])
    .filter(([, members]) => members.length > 0)

/** For single quotes, in all three shells: nothing in a sentence ends the quotation. */
const quote = (text: string): string => `'${text.replaceAll("'", '’')}'`

function bash(commands: readonly Command[]): string {
  const seconds = families(commands).map(
    ([word, members]) => `    ${word}) words=${quote(members.map(second).join(' '))} ;;`,
  )
  const options = commands.map(
    (command) =>
      `      ${quote(second(command) === undefined ? first(command) : command.name)}) words=${quote(optionsOf(command).join(' '))} ;;`,
  )
  return `# bash: eval "$(sluice completion bash)"
_sluice() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words='' command="\${COMP_WORDS[1]}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=${quote(
      firstWords(commands)
        .map(([word]) => word)
        .join(' '),
    )}
  elif [ "$COMP_CWORD" -eq 2 ]; then
    case "$command" in
${seconds.join('\n')}
    esac
  fi
  if [ -z "$words" ] && [[ "$current" == -* ]]; then
    case "$command" in ${families(commands)
      .map(([word]) => word)
      .join('|')}) command="$command \${COMP_WORDS[2]}" ;; esac
    case "$command" in
${options.join('\n')}
    esac
  fi
  [ -n "$words" ] && COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _sluice sluice`
}

function zsh(commands: readonly Command[]): string {
  const described = (word: string, about: string) => quote(`${word}:${about.replaceAll(':', ' –')}`)
  const seconds = families(commands).map(
    ([word, members]) =>
      `      ${word}) choices=(${members.map((each) => described(second(each)!, each.about)).join(' ')}) ;;`,
  )
  const options = commands.map(
    (command) => `      ${quote(command.name)}) compadd -- ${optionsOf(command).join(' ')} ;;`,
  )
  return `#compdef sluice
# zsh: eval "$(sluice completion zsh)", after compinit
_sluice() {
  local -a choices
  local command="$words[2]"
  if (( CURRENT == 2 )); then
    choices=(${firstWords(commands)
      .map(([word, about]) => described(word, about))
      .join(' ')})
  elif (( CURRENT == 3 )); then
    case "$command" in
${seconds.join('\n')}
    esac
  fi
  if (( $#choices )); then
    _describe command choices
  elif [[ "$PREFIX" == -* ]]; then
    case "$command" in ${families(commands)
      .map(([word]) => word)
      .join('|')}) command="$command $words[3]" ;; esac
    case "$command" in
${options.join('\n')}
    esac
  else
    _files
  fi
}
compdef _sluice sluice`
}

function fish(commands: readonly Command[]): string {
  const lines = firstWords(commands).map(
    ([word, about]) => `complete -c sluice -f -n __fish_use_subcommand -a ${word} -d ${quote(about)}`,
  )
  for (const [word, members] of families(commands)) {
    const known = members.map(second).join(' ')
    for (const member of members)
      lines.push(
        `complete -c sluice -f -n '__fish_seen_subcommand_from ${word}; and not __fish_seen_subcommand_from ${known}' -a ${second(member)} -d ${quote(member.about)}`,
      )
  }
  for (const command of commands) {
    const seen = command.name
      .split(' ')
      .map((word) => `__fish_seen_subcommand_from ${word}`)
      .join('; and ')
    const { flags = [], options = {}, aliases = {} } = command
    for (const option of [...flags, ...Object.keys(options)]) {
      const value = Object.hasOwn(options, option) ? (options[option] === 'FILE' ? ' -r -F' : ' -x') : ''
      const short = Object.keys(aliases).find((alias) => aliases[alias] === option)
      lines.push(`complete -c sluice -n '${seen}'${short ? ` -s ${short.slice(1)}` : ''} -l ${option.slice(2)}${value}`)
    }
  }
  lines.push("complete -c sluice -s h -l help -d 'show the usage, with an example'")
  return `# fish: sluice completion fish | source\n${lines.join('\n')}`
}
