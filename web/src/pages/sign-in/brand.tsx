import styles from './form.module.css'

export function Brand() {
  return (
    <p className={styles.brand}>
      <img src="/icon.svg" width="24" height="24" alt="" />
      Sluice
    </p>
  )
}
