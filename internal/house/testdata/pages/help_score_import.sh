printf 'Rate how well "[INSTRUCTION]" was carried out, from 0 to 5.' >question.txt
